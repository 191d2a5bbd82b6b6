package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/jobline"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

func at(micros int) time.Time {
	return time.Date(2026, 1, 31, 18, 0, 0, micros*1000, time.UTC)
}

func fullClass() queue.Class {
	class := queue.NewClass("c", 500, queue.Rate{Limit: 30, Period: time.Minute})
	class.MaxWait, class.MaxJobs, class.Dedup, class.MaxInFlight = 10*time.Minute, 7, 24*time.Hour, 4
	class.Overflow, class.Retention, class.Ack, class.Pace = queue.DropOldest, time.Hour, queue.AckReplicated(2), queue.PaceStrict
	class.Retry = queue.Retry{MaxAttempts: 7, Backoff: 1500 * time.Millisecond, MaxBackoff: time.Hour, Order: queue.Hold}
	class.Dead, class.MaxCrashes = queue.DeadLimits{Max: 0, Keep: 48 * time.Hour}, 2
	class.Adapt = queue.Adapt{Min: queue.Rate{Limit: 5, Period: time.Minute}, Max: queue.Rate{Limit: 25, Period: time.Minute}}
	class.HTTP = queue.HTTP{
		AllowPrivate: true, Hosts: []string{"a<b"}, Schemes: []string{"https"}, Ports: []int{443}, Redirects: 2,
		Secrets: []string{"s"}, Hold: queue.HoldClass, MaxHold: 10 * time.Minute, Anonymous: true,
	}
	class.Hold, class.HoldReason, class.Paused, class.Draining, class.Version = at(1), "an operator", true, true, 9
	return class
}

// TestSameShape: what the API writes is, byte for byte, what the commands print, and reading it gives the same again.
func TestSameShape(t *testing.T) {
	t.Parallel()
	part := fullClass()
	part.Adapt.Max, part.CatchUp = queue.Rate{}, 0
	for _, class := range []queue.Class{queue.NewClass("c", 1, queue.Rate{Limit: 1, Period: 24 * time.Hour}), fullClass(), part} {
		same(t, class, wire.FromClass(class), func(w wire.Class) (queue.Class, error) { return w.ToQueue(), nil })
	}
	for _, bucket := range []queue.Bucket{
		{Class: "c", Key: "日本 <\"/", Capacity: 5, Rate: queue.Rate{Limit: 1, Period: time.Second}, Out: -1},
		{
			Class: "c", Key: "k", Level: 3, Line: 2, Later: 1, Capacity: 5, Rate: queue.Rate{Limit: 7, Period: time.Second}, Due: at(1),
			Paused: true, Draining: true, Hold: at(0), HoldReason: "why", Out: 0, Sick: "WRONGTYPE", Overflowed: 3,
			Adapted: &queue.Adapted{Now: 0.7, Sustained: 1.0 / 3, At: at(5)},
		},
	} {
		same(t, bucket, wire.FromBucket(bucket), func(w wire.Bucket) (queue.Bucket, error) { return w.ToQueue(), nil })
	}
	for _, job := range []queue.JobState{
		{Ref: "0-x", Class: "c", Key: "k", ID: "1", State: queue.Gone},
		{
			Ref: "0-x", Class: "c", Key: "k", ID: "1", Type: "t", State: queue.Out, Payload: json.RawMessage(`{"a":[1,"x"]}`),
			Position: 1, AdmittedAt: at(1), EstimatedStart: at(2), NotBefore: at(3), ExpiresAt: at(4), Worker: "w", Attempts: 2, Error: "no",
			EndedAt: at(5), DepartedAt: at(6), GivenBack: 1, Crashes: 1, Cancelling: true, Result: []byte("ok <"),
			History: []queue.Attempt{
				{Number: 1, Outcome: "failed", Departed: at(1), Due: at(0), Started: at(1500), Ended: at(9), Worker: "w", Error: "no"},
				{Number: 2, Outcome: "crashed", Departed: at(1), Ended: at(9)},
			},
		},
		{Ref: "0-x", Class: "c", Key: "k", ID: "1", State: queue.Completed, AdmittedAt: at(1), Result: []byte{0xff, 0}},
	} {
		same(t, job, wire.FromJobState(job), wire.JobState.ToQueue)
	}
	for _, receipt := range []queue.Receipt{
		{Ref: "0-x", ID: "1", Status: queue.Admitted, Position: 3, Level: 3, Capacity: 5, EstimatedStart: at(1), Wait: 2 * time.Second, Ack: queue.AckMemory},
		{Ref: "0-x", Status: queue.Duplicate, EstimatedStart: at(1), Ack: queue.AckFsynced, Dropped: "0-y"},
	} {
		same(t, receipt, wire.FromReceipt(receipt), func(w wire.Receipt) (queue.Receipt, error) { return w.ToQueue(), nil })
	}
	for _, account := range []queue.Account{
		{Class: "c", Shard: 1},
		{Class: "c", Books: queue.Books{Admitted: 1, Rejected: map[queue.Reason]int64{"full": 2}}, Line: 1, Later: 2, Out: 3, Dead: 4, Moved: 5, Off: []string{"x"}},
	} {
		type shown struct {
			queue.Account
			Balanced bool `json:"balanced"`
		}
		same(t, account, wire.FromAccount(account), func(w wire.Account) (queue.Account, error) { return w.ToQueue(), nil },
			shown{account, len(account.Off) == 0})
	}
}

// same compares the shapes of a value of the queue and of its wire form, and reads the latter. shown is what is marshalled
// where that is more than the value.
func same[Q, W any](t *testing.T, value Q, written W, read func(W) (Q, error), shown ...any) {
	t.Helper()
	var printed any = value
	if len(shown) > 0 {
		printed = shown[0]
	}
	want, err := json.Marshal(printed)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(written)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%T: %s", value, diff)
	}
	var back W
	if err := json.Unmarshal(got, &back); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	again, err := read(back)
	if diff := cmp.Diff(value, again); err != nil || diff != "" {
		t.Errorf("%s: %v %s", got, err, diff)
	}
}

// TestJob: what is written is what the one parser of all doors reads.
func TestJob(t *testing.T) {
	t.Parallel()
	for _, job := range []queue.Job{
		{Class: "c", Key: "k", Payload: json.RawMessage("null")},
		{
			Class: "c", Key: "日本 <\\\"/", ID: "1", Type: "t", Payload: json.RawMessage(`{"a":1}`),
			MaxWait: 90 * time.Second, NotBefore: at(1),
		},
	} {
		line, err := json.Marshal(wire.FromJob(job))
		if err != nil {
			t.Fatal(err)
		}
		got, err := jobline.Parse(line)
		if diff := cmp.Diff(job, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", line, err, diff)
		}
	}
}

func TestBatchAnswers(t *testing.T) {
	t.Parallel()
	full := &queue.FullError{Reason: queue.ReasonFull, Class: "c", Key: "k", RetryAfter: 1500 * time.Millisecond, Level: 5, Capacity: 5}
	receipt := queue.Receipt{Ref: "0-x", ID: "1", Status: queue.Admitted, Position: 1, Level: 1, Capacity: 2, EstimatedStart: at(1)}
	for _, test := range []struct {
		result queue.Result
		want   json.Marshaler
	}{
		{queue.Result{Receipt: receipt}, receipt},
		{queue.Result{Err: full}, answer.Rejection{Err: full}},
		{queue.Result{Err: fmt.Errorf("%w: x", queue.ErrInvalid)}, answer.Rejection{Err: fmt.Errorf("%w: x", queue.ErrInvalid)}},
	} {
		want, err := test.want.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(wire.FromResult(test.result))
		if err != nil || !equalJSON(t, want, got) {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
	known := queue.Receipt{Ref: "0-x", ID: "1", Ack: queue.AckMemory, Status: queue.Admitted, Position: 1, EstimatedStart: at(1)}
	if diff := cmp.Diff(known, wire.FromResult(queue.Result{Receipt: known}).Receipt().ToQueue()); diff != "" {
		t.Error(diff)
	}
	lost := wire.FromResult(queue.Result{Receipt: queue.Receipt{Ref: "0-x", ID: "1"}, Err: queue.ErrUnknown})
	if lost.ID != "1" || lost.Ref != "0-x" || !errors.Is(lost.Problem().Cause(), queue.ErrUnknown) {
		t.Errorf("an unknown outcome: %+v", lost)
	}
}

func equalJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Fatal(err)
	}
	return cmp.Equal(x, y)
}

// TestProblems: every error that the queue and its commands know arrives at the other end as itself.
func TestProblems(t *testing.T) {
	t.Parallel()
	full := func(reason queue.Reason, paused bool) error {
		return &queue.FullError{Reason: reason, Class: "c", Key: "k", RetryAfter: 1500 * time.Millisecond, Level: 5, Capacity: 5, Paused: paused}
	}
	for _, test := range []struct {
		err    error
		status int
		reason queue.Reason
	}{
		{full("full", false), 429, "full"},
		{full("class_full", false), 429, "class_full"},
		{full("would_expire", false), 429, "would_expire"},
		{full("full", true), 429, "full"},
		{&queue.BusyError{Class: "c", Waiting: 1, Out: 2, Dead: 3}, 409, "busy"},
		{queue.ErrDraining, 409, "draining"},
		{queue.ErrConflict, 409, "conflict"},
		{queue.ErrInvalid, 400, "invalid"},
		{queue.ErrTooLarge, 413, "too_large"},
		{queue.ErrUnknownClass, 404, "unknown_class"},
		{queue.ErrNotFound, 404, "not_found"},
		{queue.ErrUnavailable, 503, "unavailable"},
		{queue.ErrUnknown, 504, "unknown"},
		{access.ErrDenied, 403, "denied"},
	} {
		err := fmt.Errorf("while it did that: %w", test.err)
		p := wire.FromProblem(err)
		if p.Status != test.status || p.Reason != test.reason || p.Detail != err.Error() {
			t.Errorf("%v: %+v", err, p)
		}
		body, wrong := json.Marshal(p)
		var back wire.Problem
		if wrong = errors.Join(wrong, json.Unmarshal(body, &back)); wrong != nil {
			t.Fatal(wrong)
		}
		switch cause := back.Cause().(type) { //nolint:errorlint // it is the error itself
		case *queue.FullError:
			want, _ := errors.AsType[*queue.FullError](err)
			known := *want
			if known.Paused {
				known.RetryAfter = 0 // nobody can tell
			}
			if diff := cmp.Diff(known, *cause, cmpopts.IgnoreUnexported(known)); diff != "" {
				t.Error(diff)
			}
		case *queue.BusyError:
			if diff := cmp.Diff(test.err, error(cause)); diff != "" {
				t.Error(diff)
			}
		default:
			if !errors.Is(err, cause) || cause == nil {
				t.Errorf("%v came back as %v", err, cause)
			}
		}
	}
	if p := wire.FromProblem(queue.ErrUnfit); p.Status != 503 || p.Reason != "unavailable" {
		t.Errorf("an unfit redis: %+v", p)
	}
	if err := (wire.Problem{Reason: "new_one"}).Cause(); err != nil {
		t.Errorf("a reason that is not known stands for %v", err)
	}
}

func TestEnding(t *testing.T) {
	t.Parallel()
	for _, ending := range []queue.Ending{
		{State: queue.Completed, At: at(1), Result: []byte("ok")},
		{State: queue.Completed, At: at(1), Result: []byte{0xff}},
		{State: queue.Kept, At: at(1), Error: "503"},
	} {
		got, err := wire.FromEnding(ending).ToQueue()
		if diff := cmp.Diff(ending, got); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	}
	if _, err := (wire.Ending{ResultBase64: "?"}).ToQueue(); err == nil {
		t.Error("what is no base64 is read")
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0s": 0, "10m": 10 * time.Minute, "720h": 720 * time.Hour, "1h0m1s": time.Hour + time.Second, "1.5s": 1500 * time.Millisecond,
		"2562047h47m16.854775807s": math.MaxInt64,
	} {
		text, err := wire.Duration(d).MarshalText()
		if err != nil || string(text) != want {
			t.Errorf("%v is %s, %v", d, text, err)
		}
		var back wire.Duration
		if err := back.UnmarshalText(text); err != nil || time.Duration(back) != d {
			t.Errorf("%s is read as %v, %v", text, back, err)
		}
	}
	var d wire.Duration
	var at wire.Time
	if d.UnmarshalText([]byte("10")) == nil || at.UnmarshalText([]byte("tomorrow")) == nil {
		t.Error("nonsense is read")
	}
}

func TestRevived(t *testing.T) {
	t.Parallel()
	left := queue.Revival{Retried: 3, Left: 2, RetryAfter: 1500 * time.Millisecond}
	if diff := cmp.Diff(left, wire.FromRevival("c", "", left, at(1)).ToQueue()); diff != "" {
		t.Error(diff)
	}
	body, err := json.Marshal(wire.FromRevival("c", "k", queue.Revival{Retried: 3}, time.Time{}))
	if want := `{"class":"c","key":"k","retried":3,"left":0}`; err != nil || string(body) != want {
		t.Errorf("got %s, %v; want %s", body, err, want)
	}
}
