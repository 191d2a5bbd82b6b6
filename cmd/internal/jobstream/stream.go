package jobstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// DefaultName is the name of the stream unless told otherwise.
const DefaultName = "SPOUT_JOBS"

// Config of the stream. The limits refuse what is published above them: JetStream answers the producer with an error.
type Config struct {
	Name     string
	Subjects Subjects
	// Messages and Bytes are the most that wait in the stream, 0 for no bound. PerKey is the most of one key, 1 or more.
	Messages, Bytes, PerKey int64
	Memory                  bool // storage; else files
	Replicas                int  // 1 to 5
	// Dedup is how long the stream knows a Nats-Msg-Id.
	Dedup time.Duration
}

// Default is the stream as it is made when nothing is said.
func Default() Config {
	return Config{
		Name: DefaultName, Subjects: DefaultPrefix, Messages: 1_000_000, PerKey: 20_000, Replicas: 1, Dedup: 2 * time.Minute,
	}
}

// Window is the most messages of one class that may wait, delivered, behind full buckets: what comes after them in the
// stream waits when there are more. [Config.PerKey] keeps one key far from it.
const Window = 100_000

func (c Config) subjects() []string {
	jobs := string(c.Subjects) + ".jobs"
	return []string{jobs, jobs + ".>"}
}

// Filters are the subjects of a class, by its token, in this stream.
func (c Config) Filters(token string) []string { return []string{c.Subjects.ofClass(token)} }

// FiltersOfNone are the subjects in this stream that are those of no class.
func (c Config) FiltersOfNone() []string {
	jobs := string(c.Subjects) + ".jobs"
	return []string{jobs, jobs + ".*", jobs + ".*.*.>"}
}

func (c Config) stream() jetstream.StreamConfig {
	storage := jetstream.FileStorage
	if c.Memory {
		storage = jetstream.MemoryStorage
	}
	return jetstream.StreamConfig{
		Name: c.Name, Description: "jobs on their way into Spout's buckets", Subjects: c.subjects(),
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
		MaxMsgs: orUnbounded(c.Messages), MaxBytes: orUnbounded(c.Bytes), MaxMsgsPerSubject: c.PerKey,
		Storage: storage, Replicas: c.Replicas, Duplicates: c.Dedup,
	}
}

func orUnbounded(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}

// ErrUnfit marks a stream that cannot serve.
var ErrUnfit = errors.New("the stream does not fit")

// overlaps is JetStream's code for subjects that another stream has.
const overlaps = 10065

// Ensure returns the stream, made when it is missing. One that is there is never changed: what differs in it is told, and
// the error wraps ErrUnfit where messages would be lost or delivered wrongly.
func Ensure(ctx context.Context, js jetstream.JetStream, c Config) (stream jetstream.Stream, differs []string, err error) {
	stream, err = js.Stream(ctx, c.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, c.stream())
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another was faster
			stream, err = js.Stream(ctx, c.Name)
		}
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == overlaps {
		return nil, nil, fmt.Errorf("%w: stream %s cannot be made: another stream has some of the subjects %s; see nats stream ls --subject %q, take them from it or choose others",
			ErrUnfit, c.Name, strings.Join(c.subjects(), " "), c.subjects()[1])
	}
	if err != nil {
		return nil, nil, fmt.Errorf("stream %s: %w", c.Name, err)
	}
	differs, err = c.Compare(stream.CachedInfo().Config)
	return stream, differs, err
}

// Compare tells in what a stream differs from the configuration; the error wraps ErrUnfit where that cannot work.
func (c Config) Compare(is jetstream.StreamConfig) (differs []string, err error) {
	want := c.stream()
	var unfit []string
	have, need := slices.Sorted(slices.Values(is.Subjects)), slices.Sorted(slices.Values(want.Subjects))
	if !slices.Equal(have, need) {
		unfit = append(unfit, fmt.Sprintf("it has the subjects %s, not %s", strings.Join(have, " "), strings.Join(need, " ")))
	}
	if is.Retention != want.Retention {
		unfit = append(unfit, fmt.Sprintf("its retention is %v, not %v", is.Retention, want.Retention))
	}
	if is.Discard != want.Discard {
		unfit = append(unfit, "at its limits it drops old messages: nats stream edit "+c.Name+" --discard new")
	}
	if is.MaxAge != 0 {
		unfit = append(unfit, fmt.Sprintf("it drops messages after %v: nats stream edit %s --max-age 0", is.MaxAge, c.Name))
	}
	if unfit != nil {
		return nil, fmt.Errorf("%w: stream %s: %s; mend it, or choose another name", ErrUnfit, c.Name, strings.Join(unfit, "; "))
	}
	for _, d := range []struct {
		what       string
		is, wanted any
	}{
		{"max messages", bound(is.MaxMsgs), bound(want.MaxMsgs)},
		{"max bytes", bound(is.MaxBytes), bound(want.MaxBytes)},
		{"max messages of a key", bound(is.MaxMsgsPerSubject), bound(want.MaxMsgsPerSubject)},
		{"refuses above that", is.DiscardNewPerSubject, want.DiscardNewPerSubject},
		{"storage", is.Storage, want.Storage},
		{"replicas", is.Replicas, want.Replicas},
		{"dedup window", is.Duplicates, want.Duplicates},
	} {
		if d.is != d.wanted {
			differs = append(differs, fmt.Sprintf("%s: %v, not %v", d.what, d.is, d.wanted))
		}
	}
	return differs, nil
}

func bound(n int64) string {
	if n <= 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

// Waiting is how many messages wait in the stream of a name; none where there is no such stream.
func Waiting(ctx context.Context, js jetstream.JetStream, name string) (uint64, error) {
	stream, err := js.Stream(ctx, name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return stream.CachedInfo().State.Msgs, nil
}

// Consumer is the name of the consumer by which a bridge carries a class: the id of its micro service, and the class or what
// stands for it.
func Consumer(bridge, class string) string { return bridge + "-" + class }

// idLength is that of the ids that micro gives services.
const idLength = 22

// ReadConsumer is the inverse of Consumer; not ok for a consumer that no bridge made.
func ReadConsumer(name string) (bridge, class string, ok bool) {
	bridge, class, ok = strings.Cut(name, "-")
	return bridge, class, ok && len(bridge) == idLength && class != ""
}

// ValidateName reports a name that no stream can have.
func ValidateName(name string) error {
	if name == "" || len(name) > 64 || strings.Trim(Token(name), "%") != name {
		return fmt.Errorf("%q is not 1 to 64 of A-Z a-z 0-9 _ -", name)
	}
	return nil
}
