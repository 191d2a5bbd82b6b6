package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Outcome is what became of a departure.
type Outcome string

// The outcomes.
const (
	Done    Outcome = "done"      // the handler returned without error
	Failed  Outcome = "fail"      // it did not: the job goes back to its bucket, or is dead when that was its last attempt
	Dead    Outcome = "dead"      // it failed, and another attempt would be no use: the job is kept with its error
	Back    Outcome = "back"      // it did not start: the job returns to the head of its bucket
	Stopped Outcome = "cancelled" // it was cancelled while it ran
	Held    Outcome = "held"      // the called service asked to be left alone: the job returns to the head, and its bucket is held
)

// Verdict settles one departure.
type Verdict struct {
	Ref, Stamp, Class string
	Outcome           Outcome
	// Error is what a failed attempt is kept with, at most 4 KiB of it.
	Error string
	// Stale says of a Back that the departure had been out for too long to start.
	Stale bool
	// RetryAfter is the time before the next attempt that a Failed one named itself; nil: the class's backoff.
	RetryAfter *time.Duration
	// Hold is how long a Held one keeps its bucket closed, at most 720 h; Error is the reason. HoldClass closes all buckets of
	// the class in this shard: tell the others with [Classes.HoldMore]. Throttled says that the service refused for the rate, so
	// that a bucket whose class adapts slows down.
	Hold                 time.Duration
	HoldClass, Throttled bool
	// Due is the departure's; Started is when the handler was called, by the server's time, zero if not known.
	Due, Started time.Time
	// Buried is set by [Outlet.Settle]: the job is dead, by this verdict or since it was its last attempt.
	Buried bool
	// Result is what the handler wrote, at most [ResultMost] bytes of it. It is for Await, and kept for the class's retention.
	Result []byte
}

const (
	// SettleMost is the most verdicts of one [Outlet.Settle].
	SettleMost = 64
	// ResultMost is how much of a result is kept, in bytes.
	ResultMost = 64 << 10

	errorMost = 4 << 10
)

// detail is what settle.lua needs to know beside the outcome.
func (v *Verdict) detail() (outcome, detail string) {
	times := fmt.Sprintf("%d %d", micros(v.Due), micros(v.Started))
	switch v.Outcome {
	case Done:
		if v.Due.IsZero() && len(v.Result) == 0 {
			return "done", ""
		}
		return "done", times + "\n" + string(v.Result[:min(len(v.Result), ResultMost)])
	case Back:
		if v.Stale {
			return "stale", ""
		}
		return "back", ""
	case Held:
		cuts, scope := 0, "bucket"
		if v.Throttled {
			cuts = 1
		}
		if v.HoldClass {
			scope = "class"
		}
		return "held", fmt.Sprintf("%s %d %d %s\n%s", times, max(0, v.Hold.Microseconds()), cuts, scope, shortened(v.Error))
	case Stopped:
		return "cancelled", times + "\n" + shortened(v.Error)
	default:
		delay := int64(-1)
		if v.RetryAfter != nil {
			delay = max(0, v.RetryAfter.Microseconds())
		}
		return string(v.Outcome), fmt.Sprintf("%s %d %d\n%s", times, delay, rand.IntN(1_000_000), shortened(v.Error)) //nolint:gosec // no secret
	}
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Settle says what became of up to [SettleMost] departures of this outlet's worker. It tells for each whether it was taken:
// a departure that is not out any more is refused. It sets Buried of the verdicts. It is safe to repeat.
func (o *Outlet) Settle(ctx context.Context, verdicts []Verdict) ([]bool, error) {
	if len(verdicts) == 0 {
		return nil, nil
	}
	args := make([]any, 0, 1+5*len(verdicts))
	args = append(args, o.worker)
	for i := range verdicts {
		v := &verdicts[i]
		outcome, detail := v.detail()
		args = append(args, v.Ref, v.Stamp, outcome, v.Class, detail)
	}
	r, err := o.c.run(ctx, o.c.scripts.settle, o.shard, "settle", args...)
	if err != nil {
		return nil, err
	}
	taken := make([]bool, len(verdicts))
	for i := range taken {
		taken[i], verdicts[i].Buried = r.int(i) > 0, r.int(i) == 2
	}
	return taken, nil
}

// shortened is an error text of at most 4 KiB of valid UTF-8.
func shortened(s string) string {
	if len(s) > errorMost {
		s = s[:errorMost]
	}
	return strings.ToValidUTF8(s, "\ufffd")
}
