package queue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// waits is what Await returned.
type waits struct {
	ref    string
	ending queue.Ending
	err    error
}

// awaits begins to wait for the ends of jobs, and returns when Redis knows that somebody does.
func (s *shop) awaits(ctx context.Context, refs ...string) chan waits {
	s.t.Helper()
	all := make(chan waits, len(refs))
	for _, ref := range refs {
		go func() {
			ending, err := s.c.Await(ctx, ref)
			all <- waits{ref, ending, err}
		}()
	}
	for _, ref := range refs {
		eventually(s.t, "awaited", func() bool { return s.rdb.SIsMember(ctx, "{spout:0}:awaits", ref).Val() })
	}
	return all
}

// hears takes the next end, which must be as wanted.
func (s *shop) hears(all chan waits, ref string, want queue.Ending) {
	s.t.Helper()
	select {
	case got := <-all:
		same := got.ending.State == want.State && string(got.ending.Result) == string(want.Result) &&
			got.ending.Error == want.Error && got.ending.At.Equal(want.At)
		if got.err != nil || got.ref != ref || !same {
			s.t.Errorf("%+v; want the end of %s as %+v", got, ref, want)
		}
	case <-time.After(20 * time.Second):
		s.t.Fatalf("nobody heard of the end of %s", ref)
	}
}

func (s *shop) today() time.Time { return time.UnixMicro(s.now).UTC() }

// TestAwaitEveryEnd: however a job ends, who waits for it hears.
func TestAwaitEveryEnd(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s, ctx := newShop(t, rdb), t.Context()
		put(t, s.c, "c", 2, "1/1s", func(c *queue.Class) { c.Retry.MaxAttempts, c.Overflow = 1, queue.DropOldest })
		admitted := func(id string) string { return admit(t, s.c, newJob("c", "k", id))[0].Ref }
		next := func(outcome queue.Outcome, change ...func(*queue.Verdict)) {
			s.advance(time.Second)
			s.settle(s.one(), outcome, change...)
		}

		ref := admitted("failed")
		all := s.awaits(ctx, ref)
		next(queue.Failed, func(v *queue.Verdict) { v.Error = "two\nlines" })
		s.hears(all, ref, queue.Ending{State: queue.Kept, At: s.today(), Error: "two\nlines"})
		died := s.today()
		s.advance(time.Second)
		all = make(chan waits, 1)
		ending, err := s.c.Await(ctx, ref) // it is dead already
		all <- waits{ref, ending, err}
		s.hears(all, ref, queue.Ending{State: queue.Kept, At: died, Error: "two\nlines"})

		ref = admitted("stopped")
		all = s.awaits(ctx, ref)
		next(queue.Stopped)
		s.hears(all, ref, queue.Ending{State: queue.Cancelled, At: s.today(), Error: "it broke"})

		ref = admitted("cancelled")
		all = s.awaits(ctx, ref)
		_, err = s.c.Cancel(ctx, ref)
		must(t, err)
		s.hears(all, ref, queue.Ending{State: queue.Cancelled, At: s.today()})

		expiring := newJob("c", "k", "expired")
		expiring.MaxWait = time.Minute
		ref = admit(t, s.c, expiring)[0].Ref
		all = s.awaits(ctx, ref)
		s.advance(time.Hour)
		s.none()
		s.hears(all, ref, queue.Ending{State: queue.Expired, At: s.today()})

		ref = admitted("dropped")
		all = s.awaits(ctx, ref)
		admit(t, s.c, newJobs("c", "k", 2)...)
		s.hears(all, ref, queue.Ending{State: queue.Dropped, At: s.today()})

		all = s.awaits(ctx, admit(t, s.c, newJob("c", "k", "no result"))[0].Ref)
		s.advance(time.Second)
		s.settle(s.one(), queue.Back) // that is no end
		next(queue.Done)
		next(queue.Done)
		got := <-all
		if got.err != nil || got.ending.State != queue.Completed || got.ending.Result != nil {
			t.Errorf("%+v; want it done, without a result", got)
		}
		if n := rdb.Exists(ctx, "{spout:0}:awaits").Val(); n != 0 {
			t.Error("Redis thinks that somebody waits")
		}
	})
}

// TestAwaitWhatIsOver: the retention is what is known of a job that had ended before.
func TestAwaitWhatIsOver(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s, ctx := newShop(t, rdb), t.Context()
		put(t, s.c, "c", 10, "1/1s", func(c *queue.Class) { c.Retention = time.Hour })
		refs := admit(t, s.c, newJobs("c", "k", 2)...)
		s.settle(s.one(), queue.Done, func(v *queue.Verdict) { v.Result = []byte(`{"n":1}`) })
		_, err := s.c.Cancel(ctx, refs[1].Ref)
		must(t, err)
		at := s.today()
		s.advance(time.Second)
		for i, want := range []queue.Ending{{State: queue.Completed, Result: []byte(`{"n":1}`)}, {State: queue.Cancelled}} {
			e, err := s.c.Await(ctx, refs[i].Ref)
			if err != nil || e.State != want.State || string(e.Result) != string(want.Result) || !e.At.Equal(at) {
				t.Errorf("%+v, %v; want %+v", e, err, want)
			}
		}
		if _, err := s.c.Await(ctx, "0-aaaaaaaaaaaaaaaaaaaaaa"); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("a job that never was: %v", err)
		}
		if _, err := s.c.Await(ctx, "nonsense"); !errors.Is(err, queue.ErrInvalid) {
			t.Errorf("no ref: %v", err)
		}
	})
}

// TestAwaitIsGivenUp: a wait ends with its context, and tells why.
func TestAwaitIsGivenUp(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 10, "1/1s")
		ref := admit(t, s.c, newJob("c", "k", "1"))[0].Ref
		why := errors.New("the shop closes")
		ctx, cancel := context.WithCancelCause(t.Context())
		all := s.awaits(ctx, ref)
		cancel(why)
		if got := <-all; !errors.Is(got.err, why) || !strings.Contains(got.err.Error(), ref) {
			t.Errorf("%+v; want it given up, and why", got)
		}
		s.settle(s.one(), queue.Done) // nobody hears it, and nothing is left of it
		if n := rdb.Exists(t.Context(), "{spout:0}:awaits").Val(); n != 0 {
			t.Error("Redis thinks that somebody waits")
		}
	})
}

// TestAwaitOverABrokenConnection: an end that came while nobody listened is heard of.
func TestAwaitOverABrokenConnection(t *testing.T) {
	t.Parallel()
	s := newShop(t, redistest.Start(t).Client(t))
	put(t, s.c, "c", 10, "1/1s", func(c *queue.Class) { c.Retention = time.Hour })
	refs := admit(t, s.c, newJobs("c", "k", 2)...)
	all := s.awaits(t.Context(), refs[0].Ref, refs[1].Ref)
	d := s.one()
	pipe := s.rdb.TxPipeline() // the connection breaks and the job ends at the same moment: none hears of that
	killed := pipe.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub")
	_, err := pipe.Exec(t.Context())
	must(t, err)
	s.settle(d, queue.Done, func(v *queue.Verdict) { v.Result = []byte("4\n\x002\xff") })
	if n, err := killed.Int(); err != nil || n != 1 {
		t.Errorf("%d connections were killed, %v; want one", n, err)
	}
	s.hears(all, d.Ref, queue.Ending{State: queue.Completed, At: s.today(), Result: []byte("4\n\x002\xff")})
	s.advance(time.Second)
	d = s.one()
	s.settle(d, queue.Dead)
	s.hears(all, d.Ref, queue.Ending{State: queue.Kept, At: s.today(), Error: "it broke"})
}

// TestAwaitSharesAConnection: many waits need one, which goes with the last of them, and nothing stays behind.
func TestAwaitSharesAConnection(t *testing.T) { //nolint:paralleltest // it counts goroutines
	rdb := redistest.Start(t).Client(t)
	s := newShop(t, rdb)
	put(t, s.c, "c", 1000, "1000/1s")
	const n = 50
	refs := make([]string, n)
	for i, r := range admit(t, s.c, newJobs("c", "k", n)...) {
		refs[i] = r.Ref
	}
	pubsubs := func() int {
		list, err := rdb.Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").Text()
		must(t, err)
		return strings.Count(list, "cmd=")
	}
	before := runtime.NumGoroutine()
	for round := range 2 {
		all := s.awaits(t.Context(), refs[round*n/2:(round+1)*n/2]...)
		if got := pubsubs(); got != 1 {
			t.Errorf("%d connections listen, want 1", got)
		}
		if got := len(rdb.PubSubChannels(t.Context(), "{spout:0}:end:*").Val()); got != n/2 {
			t.Errorf("%d channels, want %d", got, n/2)
		}
		for i := range n / 2 {
			s.advance(time.Second)
			d := s.one()
			s.settle(d, queue.Done, func(v *queue.Verdict) { v.Result = fmt.Append(nil, i) })
			s.hears(all, d.Ref, queue.Ending{State: queue.Completed, At: s.today(), Result: fmt.Append(nil, i)})
		}
		eventually(t, "closed", func() bool { return pubsubs() == 0 })
		eventually(t, "rid of its goroutines", func() bool { return runtime.NumGoroutine() <= before+2 })
	}
	if left := rdb.PubSubChannels(t.Context(), "{spout:0}:end:*").Val(); len(left) != 0 {
		t.Errorf("channels %v are left", left)
	}
}
