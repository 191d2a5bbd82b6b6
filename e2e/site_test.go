package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// site is what a test works on: a Redis of its own, the programs on it, and the service that the jobs call.
type site struct {
	program
	server *redistest.Server
	rdb    *redis.Client
	up     *upstream
	client *queue.Client // reads the books
}

// newSite starts one. Arguments are for redis-server.
func newSite(tb testing.TB, answer func(call) reply, args ...string) *site {
	tb.Helper()
	server := redistest.Start(tb, args...)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, DialerRetries: 1})
	tb.Cleanup(func() { _ = rdb.Close() })
	client, err := queue.Open(tb.Context(), rdb, queue.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return &site{
		program: program{tb, "redis://" + server.Addr},
		server:  server, rdb: rdb, up: newUpstream(tb, answer), client: client,
	}
}

// at is the same programs on the same Redis by another address.
func (s *site) at(addr string) program { return program{s.tb, "redis://" + addr} }

// lines are the buckets of one class that a test fills, each with the same number of jobs.
type lines struct {
	class    string
	buckets  int
	jobs     int           // in each bucket
	interval time.Duration // between two departures of a bucket
	more     string        // settings of the class, in YAML
	typ      string        // of the jobs; empty is http:call
}

func (l lines) total() int            { return l.buckets * l.jobs }
func (l lines) key(bucket int) string { return fmt.Sprintf("k%d", bucket) }

// names are what the buckets are called, here and by the service.
func (l lines) names() (names []string) {
	for i := range l.buckets {
		names = append(names, l.class+"/"+l.key(i))
	}
	return names
}

// settings of the class, in YAML; more comes last.
func (l lines) settings() string {
	s := fmt.Sprintf("capacity: 100000, rate: 1/%v, http: {allow_private: true}", l.interval)
	if l.more != "" {
		s += ", " + l.more
	}
	return "{" + s + "}"
}

func (s *site) apply(all ...lines) {
	s.tb.Helper()
	var classes strings.Builder
	classes.WriteString("classes:\n")
	for _, l := range all {
		fmt.Fprintf(&classes, "  %s: %s\n", l.class, l.settings())
	}
	s.run("admin", "class", "apply", "-f", write(s.tb, "classes.yaml", classes.String()))
}

// fill applies the classes and submits the jobs, mixed.
func (s *site) fill(all ...lines) {
	s.tb.Helper()
	s.apply(all...)
	s.submit(s.program, all...)
}

// submit sends the jobs of all buckets, mixed, with producer bulk.
func (s *site) submit(p program, all ...lines) {
	s.tb.Helper()
	var jobs strings.Builder
	most := 0
	for _, l := range all {
		most = max(most, l.jobs)
	}
	for n := range most {
		for _, l := range all {
			for i := 0; i < l.buckets && n < l.jobs; i++ {
				jobs.WriteString(s.job(l, i, n))
			}
		}
	}
	p.run("producer", "bulk", "-f", write(s.tb, "jobs.jsonl", jobs.String()))
}

// job is the line of one job, whose id is its number.
func (s *site) job(l lines, bucket, n int) string {
	return jobLine(s.tb, map[string]any{
		"class": l.class, "key": l.key(bucket), "id": fmt.Sprint(n), "type": l.typ,
		"payload": map[string]string{"method": "GET", "url": s.url(l.names()[bucket], n)},
	})
}

func (s *site) url(bucket string, n int) string {
	return fmt.Sprintf("%s/?bucket=%s&n=%d", s.up.URL, bucket, n)
}

func jobLine(tb testing.TB, job map[string]any) string {
	tb.Helper()
	if job["type"] == "" {
		delete(job, "type")
	}
	line, err := json.Marshal(job)
	if err != nil {
		tb.Fatal(err)
	}
	return string(line) + "\n"
}

// books reads the totals of a class; a Redis that is away has none.
func (s *site) books(class string) (books queue.Books, ok bool) {
	books, err := s.client.Books(s.tb.Context(), class)
	return books, err == nil
}

// drained waits until all jobs of the classes are final.
func (s *site) drained(all ...lines) {
	s.tb.Helper()
	for _, l := range all {
		final := within(s.tb, patience, func() bool {
			b, ok := s.books(l.class)
			return ok && b.Admitted > 0 && b.Waiting() == 0 && b.Out() == 0
		})
		if !final {
			b, _ := s.books(l.class)
			_, buckets, _ := s.try("admin", "bucket", "ls", l.class, "-o", "json")
			_, audit, _ := s.try("admin", "audit", l.class, "-o", "json")
			s.tb.Fatalf("not all jobs of class %s are final after %v: %+v\n%s%s", l.class, patience, b, buckets, audit)
		}
	}
}

// checkBooks wants every job done, none dead, and the audit to agree.
func (s *site) checkBooks(all ...lines) {
	s.tb.Helper()
	for _, l := range all {
		b, ok := s.books(l.class)
		if !ok || b.Admitted != int64(l.total()) || b.Done != b.Admitted || b.Dead != 0 {
			s.tb.Errorf("books of %s after %d jobs: %+v", l.class, l.total(), b)
		}
	}
	s.audit()
}

// audit has admin check the books of all classes.
func (s *site) audit() {
	s.tb.Helper()
	if status, out, errs := s.try("admin", "audit", "-o", "json"); status != 0 {
		s.tb.Errorf("admin audit: exit status %d\n%s%s", status, out, errs)
	}
}

// checkUndisturbed wants what should be seen where nothing befell the attempts: each job once, in order, at pace, done.
func (s *site) checkUndisturbed(l lines) {
	s.tb.Helper()
	for _, bucket := range l.names() {
		s.up.checkTimes(s.tb, bucket, l.jobs, 1)
	}
	s.checkPaceAndOrder(l)
	s.checkBooks(l)
}

// checkFaulted wants what should be seen after faults: a job is called again only where one of them caught it. It tells how
// often.
func (s *site) checkFaulted(l lines, faults []fault) (repeats int) {
	s.tb.Helper()
	strangers := 0
	for _, bucket := range l.names() {
		repeats += s.up.checkRepeats(s.tb, bucket, l.jobs, faults)
		strangers += len(slices.DeleteFunc(s.up.calls(bucket), func(a arrival) bool { return a.pid != 0 }))
	}
	s.tb.Logf("class %s: %d jobs, %d calls repeated after %d faults; of %d calls it is not known who made them",
		l.class, l.total(), repeats, len(faults), strangers)
	s.checkPaceAndOrder(l)
	s.checkBooks(l)
	return repeats
}

func (s *site) checkPaceAndOrder(l lines) {
	s.tb.Helper()
	s.checkPace(l)
	b, _ := s.books(l.class)
	s.up.checkOrder(s.tb, l.names(), int(b.Returned))
}

// checkPace holds every bucket against law 3 and tells how close it came.
func (s *site) checkPace(l lines) {
	s.tb.Helper()
	var most time.Duration
	for _, bucket := range l.names() {
		s.up.checkPace(s.tb, bucket, l.interval)
		_, early := earliest(s.up.calls(bucket), l.interval)
		most = max(most, early)
	}
	s.up.keep(s.tb, l.class, l.names())
	s.tb.Logf("class %s: no call was more than %v early", l.class, most.Round(time.Millisecond/10))
}

// deadJob is what admin dead ls tells of a job.
type deadJob struct{ Ref, Key, ID, Type, Error string }

// dead lists the dead jobs of a class.
func (s *site) dead(class string) (jobs []deadJob) {
	s.tb.Helper()
	lines := json.NewDecoder(strings.NewReader(s.run("admin", "dead", "ls", class, "--limit", "1000", "-o", "json")))
	for lines.More() {
		var j deadJob
		if err := lines.Decode(&j); err != nil {
			s.tb.Fatal(err)
		}
		jobs = append(jobs, j)
	}
	return jobs
}
