package queue

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
)

// State is where a job is.
type State string

// The states of a job.
const (
	Line      State = "line"      // waits in the line
	Later     State = "later"     // delayed, or parked after a failed attempt: joins the line later
	Out       State = "out"       // departed, with an owner
	Kept      State = "dead"      // failed, kept for an operator
	Completed State = "done"      // its handler returned without error; kept for the class's retention
	Expired   State = "expired"   // waited longer than it may; kept for the retention
	Cancelled State = "cancelled" // by an operator or its producer; kept for the retention
	Dropped   State = "dropped"   // by overflow drop-oldest; kept for the retention
	Gone      State = "gone"      // it has ended, and only its identity is remembered
)

// JobState is what is known of one job.
type JobState struct {
	Ref, Class, Key, ID, Type string
	State                     State
	Payload                   json.RawMessage
	// Position in the line, 1 for the next to leave; 0 for a job that is not in it.
	Position int
	// AdmittedAt, the EstimatedStart that its receipt told, and for a delayed or parked job when it joins.
	AdmittedAt, EstimatedStart, NotBefore time.Time
	// ExpiresAt is when it will have waited longer than it may; zero for never.
	ExpiresAt time.Time
	// Worker that has it out.
	Worker string
	// Attempts that ended, the last one's Error and when it was.
	Attempts int
	Error    string
	EndedAt  time.Time
	// DepartedAt of a job that is out.
	DepartedAt time.Time
	// GivenBack counts departures that became stale before the attempt started.
	GivenBack int
	// Crashes counts the workers that died with it since it last came in.
	Crashes int
	// Cancelling: it is out and was told to end.
	Cancelling bool
	// History is the attempts that ended, the last 100 of them; of a job that is simply done only those before the last,
	// unless the class has a retention.
	History []Attempt
	// Result is what the handler wrote, at most [ResultMost] bytes of it.
	Result []byte
}

// Attempt is one attempt that has ended.
type Attempt struct {
	Number int
	// Outcome is done, failed, crashed, cancelled, or held: the called service would not take it then.
	Outcome string
	// Departed from the bucket, where it was Due. Started is when the handler was called, zero when that is not known.
	Departed, Due, Started, Ended time.Time
	// Worker that ran it.
	Worker string
	Error  string
}

// Lateness is the start seen from the due time; false when the start is not known.
func (a Attempt) Lateness() (time.Duration, bool) {
	return a.Started.Sub(a.Due), !a.Started.IsZero()
}

// MarshalJSON leaves out what an attempt does not have.
func (a Attempt) MarshalJSON() ([]byte, error) {
	var late *float64
	if d, ok := a.Lateness(); ok {
		ms := float64(d.Microseconds()) / 1000
		late = &ms
	}
	return json.Marshal(struct {
		Number     int      `json:"number"`
		Outcome    string   `json:"outcome"`
		Due        string   `json:"due,omitempty"`
		Departed   string   `json:"departed"`
		Started    string   `json:"started,omitempty"`
		LatenessMS *float64 `json:"lateness_ms,omitempty"`
		Ended      string   `json:"ended"`
		Worker     string   `json:"worker"`
		Error      string   `json:"error,omitempty"`
	}{
		a.Number, a.Outcome, shownTime(a.Due), shownTime(a.Departed), shownTime(a.Started), late, shownTime(a.Ended),
		a.Worker, a.Error,
	})
}

// MarshalJSON leaves out what a job does not have.
func (j JobState) MarshalJSON() ([]byte, error) {
	result, encoded := "", ""
	if utf8.Valid(j.Result) {
		result = string(j.Result)
	} else {
		encoded = base64.StdEncoding.EncodeToString(j.Result)
	}
	at := shownTime
	return json.Marshal(struct {
		Ref            string          `json:"ref"`
		Class          string          `json:"class"`
		Key            string          `json:"key"`
		ID             string          `json:"id"`
		Type           string          `json:"type,omitempty"`
		State          State           `json:"state"`
		Position       int             `json:"position,omitempty"`
		AdmittedAt     string          `json:"admitted_at"`
		EstimatedStart string          `json:"estimated_start,omitempty"`
		NotBefore      string          `json:"not_before,omitempty"`
		ExpiresAt      string          `json:"expires_at,omitempty"`
		Worker         string          `json:"worker,omitempty"`
		Attempts       int             `json:"attempts,omitempty"`
		Error          string          `json:"error,omitempty"`
		EndedAt        string          `json:"ended_at,omitempty"`
		DepartedAt     string          `json:"departed_at,omitempty"`
		GivenBack      int             `json:"given_back,omitempty"`
		Crashes        int             `json:"crashes,omitempty"`
		Cancelling     bool            `json:"cancelling,omitempty"`
		History        []Attempt       `json:"history,omitempty"`
		Result         string          `json:"result,omitempty"`
		ResultBase64   string          `json:"result_base64,omitempty"`
		Payload        json.RawMessage `json:"payload,omitempty"`
	}{
		j.Ref, j.Class, j.Key, j.ID, j.Type, j.State, j.Position, at(j.AdmittedAt), at(j.EstimatedStart),
		at(j.NotBefore), at(j.ExpiresAt), j.Worker, j.Attempts, j.Error, at(j.EndedAt),
		at(j.DepartedAt), j.GivenBack, j.Crashes, j.Cancelling, j.History, result, encoded, j.Payload,
	})
}

// Job reads one job by its ref. The error wraps [ErrNotFound] when it is gone, or never was.
func (c *Client) Job(ctx context.Context, ref string) (JobState, error) {
	shard, err := shardOfRef(ref, len(c.tags))
	if err != nil {
		return JobState{}, err
	}
	pipe := c.rdb.Pipeline()
	alive := pipe.HGetAll(ctx, c.key(shard, "job", ref))
	ended := pipe.HGetAll(ctx, c.key(shard, "ended", ref))
	if _, err := pipe.Exec(ctx); err != nil {
		return JobState{}, readError("read job "+ref, err)
	}
	h := alive.Val()
	if h["run"] == "" && ended.Val()["is"] != "" { // a mark of the identity tells less
		h = ended.Val()
	}
	if h["is"] == "" {
		return JobState{}, fmt.Errorf("%w: job %s: it has ended, or never was", ErrNotFound, ref)
	}
	j := readJob(ref, h)
	if j.State != "" {
		return j, nil
	}
	number, _, _ := strings.Cut(h["meta"], " ")
	return j, c.locate(ctx, shard, &j, number, h["member"])
}

func readJob(ref string, h map[string]string) JobState {
	var f fields = h
	j := JobState{
		Ref: ref, ExpiresAt: f.time("expires"),
		Error: h["error"], EndedAt: f.time("ended"), State: State(h["state"]), Cancelling: h["cancel"] != "" && h["state"] == "",
	}
	past := readPast(h["past"])
	j.Attempts, j.GivenBack, j.Crashes = past.attempts, past.backs, past.crashes
	for n := max(1, past.attempts-attemptsKept+1); n <= past.attempts; n++ {
		if a, ok := readAttempt(n, h["a"+strconv.Itoa(n)]); ok {
			j.History = append(j.History, a)
		}
	}
	if h["result"] != "" {
		j.Result = []byte(h["result"])
	}
	id, bucket, _ := strings.Cut(h["is"][min(digestLen, len(h["is"])):], "\n")
	j.ID = id
	j.Class, j.Key, _ = strings.Cut(bucket, "/")
	if meta := strings.Fields(h["meta"]); len(meta) == 6 { // see admit.lua
		j.AdmittedAt = time.UnixMicro(parseInt(meta[1])).UTC()
		j.EstimatedStart = j.AdmittedAt.Add(time.Duration(parseInt(meta[2])) * time.Microsecond)
		if h["member"] != "" && past.attempts == 0 {
			j.NotBefore = time.UnixMicro(parseInt(meta[0])).UTC()
		}
	}
	if h["run"] == "" {
		j.State = Gone
		return j
	}
	_, typ, _, payload := readRun(h["run"])
	j.Type, j.Payload = typ, json.RawMessage(payload)
	return j
}

// locate finds which place a job is in: exactly one, by the way the scripts move it.
func (c *Client) locate(ctx context.Context, shard int, j *JobState, number, member string) error {
	bucket := j.Class + "/" + j.Key
	if member == "" {
		member = j.Ref
	}
	pipe := c.rdb.Pipeline()
	rank := pipe.ZRank(ctx, c.key(shard, "line", bucket), member)
	later := pipe.ZScore(ctx, c.key(shard, "later", bucket), member)
	parked := pipe.ZScore(ctx, c.key(shard, "later", bucket), parkedMember(number, member))
	workers := pipe.HKeys(ctx, c.tags[shard]+":workers")
	if _, err := pipe.Exec(ctx); err != nil && !isNil(err) {
		return readError("find job "+j.Ref, err)
	}
	switch {
	case rank.Err() == nil:
		j.State, j.Position = Line, int(rank.Val())+1
		return nil
	case later.Err() == nil:
		j.State, j.NotBefore = Later, time.UnixMicro(int64(later.Val())).UTC()
		return nil
	case parked.Err() == nil:
		j.State, j.NotBefore = Later, time.UnixMicro(int64(parked.Val())).UTC()
		return nil
	}
	j.State = Out
	for _, worker := range workers.Val() {
		entry, err := c.rdb.HGet(ctx, c.key(shard, "out", worker), j.Ref).Result()
		if err != nil && !isNil(err) {
			return readError("find job "+j.Ref, err)
		}
		if stamp, _, ok := strings.Cut(entry, " "); ok {
			j.Worker, j.DepartedAt = worker, time.UnixMicro(parseInt(stamp)).UTC()
		}
	}
	return nil
}

// Jobs reads up to limit jobs of a class, or of one bucket when key is not empty: those in line and later, in order of
// departure, or, when dead is asked for, the dead ones, newest first.
func (c *Client) Jobs(ctx context.Context, class, key string, dead bool, limit int) ([]JobState, error) {
	if _, err := c.Classes().Get(ctx, class); err != nil {
		return nil, err
	}
	if dead {
		return c.Dead().List(ctx, DeadQuery{Class: class, Key: key, Limit: limit})
	}
	buckets := []Bucket{{Class: class, Key: key}}
	if key == "" {
		var err error
		if buckets, err = c.Buckets().List(ctx, class, limit); err != nil {
			return nil, err
		}
	}
	var jobs []JobState
	for _, b := range buckets {
		if len(jobs) >= limit {
			break
		}
		some, err := c.waitingJobs(ctx, b.Name(), limit-len(jobs))
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, some...)
	}
	return jobs, nil
}

func (c *Client) waitingJobs(ctx context.Context, bucket string, limit int) ([]JobState, error) {
	shard := shardOf(bucket, len(c.tags))
	var jobs []JobState
	for _, place := range []State{Line, Later} {
		members, err := c.rdb.ZRange(ctx, c.key(shard, string(place), bucket), 0, int64(limit-len(jobs))-1).Result()
		if err != nil {
			return nil, readError("list jobs of bucket "+bucket, err)
		}
		some, err := c.readJobs(ctx, shard, members)
		if err != nil {
			return nil, err
		}
		for i := range some {
			some[i].State = place
			if place == Line {
				some[i].Position = i + 1
			}
		}
		if jobs = append(jobs, some...); len(jobs) >= limit {
			break
		}
	}
	return jobs, nil
}

// readJobs reads jobs by their members in a bucket. One that left in between is left out.
func (c *Client) readJobs(ctx context.Context, shard int, members []string) ([]JobState, error) {
	jobs, err := c.readEach(ctx, shard, members)
	return slices.DeleteFunc(jobs, func(j JobState) bool { return j.Ref == "" }), err
}

// readEach reads jobs by their members in a bucket. One that left in between has no ref.
func (c *Client) readEach(ctx context.Context, shard int, members []string) ([]JobState, error) {
	if len(members) == 0 {
		return nil, nil
	}
	pipe := c.rdb.Pipeline()
	refs := make([]string, len(members))
	calls := make([]*redis.MapStringStringCmd, len(members))
	for i, member := range members {
		refs[i] = member[strings.LastIndexByte(member, ':')+1:]
		calls[i] = pipe.HGetAll(ctx, c.key(shard, "job", refs[i]))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, readError("read jobs", err)
	}
	jobs := make([]JobState, len(members))
	for i, call := range calls {
		if h := call.Val(); h["is"] != "" {
			jobs[i] = readJob(refs[i], h)
		}
	}
	return jobs, nil
}

// attemptsKept is how many attempts of a job are remembered, see prelude.lua.
const attemptsKept = 100

// readAttempt reads what record in prelude.lua wrote.
func readAttempt(number int, text string) (Attempt, bool) {
	head, message, _ := strings.Cut(text, "\n")
	f := strings.Fields(head)
	if len(f) != 6 {
		return Attempt{}, false
	}
	at := func(i int) time.Time {
		if us := parseInt(f[i]); us > 0 {
			return time.UnixMicro(us).UTC()
		}
		return time.Time{}
	}
	return Attempt{
		Number: number, Outcome: f[0], Departed: at(1), Due: at(2), Started: at(3), Ended: at(4), Worker: f[5], Error: message,
	}, true
}

// parkedMember names a parked job in later, see settle.lua.
func parkedMember(number, member string) string { return "!" + number + ":" + member }
