package queue_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// TestDeparture: all that an attempt needs comes with it.
func TestDeparture(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c, ctx := openAt(t, rdb, 1), t.Context()
		put(t, c, "plain", 10, "10/1s")
		put(t, c, "full", 10, "10/1s", func(c *queue.Class) {
			c.Timeout, c.HTTP = 7*time.Second, queue.HTTP{AllowPrivate: true, Hosts: []string{"a:80"}}
		})
		first := newJob("full", "a key", "first id")
		first.Type, first.Trace, first.Payload = "my type", "00-4bf9-01", []byte("{\"n\": 1,\n\"t\":\"\\n 日本\"}")
		r := admit(t, c, first, newJob("plain", "k", "second"))
		outlet := c.Outlet("w", 0)
		want := queue.Departure{
			Ref: r[0].Ref, Worker: "w", Due: at(0), Class: "full", Key: "a key", ID: "first id", Type: "my type", Trace: "00-4bf9-01",
			Payload: []byte("{\"n\":1,\"t\":\"\\n 日本\"}"), Attempt: 1,
			Settings: &queue.Settings{Timeout: 7 * time.Second, HTTP: `{"allow_private":true,"hosts":["a:80"]}`},
		}
		later := queue.Departure{
			Ref: r[1].Ref, Worker: "w", Due: at(joinSpread), Class: "plain", Key: "k", ID: "second", Type: queue.DefaultType,
			Payload: []byte("null"), Attempt: 1, Settings: &queue.Settings{Timeout: 30 * time.Second},
		}
		opts := cmp.Options{cmpopts.IgnoreFields(queue.Departure{}, "Stamp", "Number"), cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })}
		for backs := range 3 {
			now := start + joinSpread + int64(backs)*200_000
			must(t, c.SetClock(ctx, now))
			d, err := outlet.Depart(ctx, queue.Ask{Want: 10})
			if err != nil || len(d.Jobs) != 2 || d.Now.UnixMicro() != now {
				t.Fatalf("%+v, %v; want two departures", d, err)
			}
			if d.Jobs[0].Class != "full" {
				slices.Reverse(d.Jobs)
			}
			if backs > 0 {
				want.Due, later.Due = d.Jobs[0].Due, d.Jobs[1].Due
			}
			want.Backs = backs
			if diff := cmp.Diff([]queue.Departure{want, later}, d.Jobs, opts); diff != "" {
				t.Errorf("given back %d times (-want +got):\n%s", backs, diff)
			}
			var verdicts []queue.Verdict
			for i, j := range d.Jobs {
				verdicts = append(verdicts, queue.Verdict{Ref: j.Ref, Stamp: j.Stamp, Outcome: queue.Back, Stale: i == 0})
			}
			_, err = outlet.Settle(ctx, verdicts)
			must(t, err)
		}
		if books, err := c.Books(ctx, "full"); err != nil || books.Stale != 3 || books.Returned != 3 {
			t.Errorf("books: %+v, %v; want three stale", books, err)
		}
		if taken, err := outlet.Settle(ctx, nil); err != nil || len(taken) != 0 {
			t.Errorf("nothing to settle: %v, %v", taken, err)
		}
	})
}

// TestDepartOnlyWhatIsServed: a worker gets jobs of the classes it names, and is told when theirs is due.
func TestDepartOnlyWhatIsServed(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c, ctx := openAt(t, rdb, 1), t.Context()
		for i, name := range []string{"a", "b", "c"} {
			put(t, c, name, 10, fmt.Sprint(1, "/", i+1, "s"))
			admit(t, c, newJobs(name, "k", 2)...)
		}
		must(t, c.SetClock(ctx, start+500))
		outlet := c.Outlet("w", 0)
		for _, step := range []struct {
			classes []string
			want    int
			got     int
			wait    time.Duration
		}{
			{[]string{"none"}, 10, 0, -1},
			{[]string{"b", "c"}, 0, 0, 0},
			{[]string{"b", "c"}, 10, 2, 2*time.Second - 500*time.Microsecond},
			{[]string{"c"}, 10, 0, 3*time.Second - 500*time.Microsecond},
			{nil, 1, 1, time.Second - 500*time.Microsecond},
		} {
			d, err := outlet.Depart(ctx, queue.Ask{Want: step.want, Classes: step.classes})
			if err != nil || len(d.Jobs) != step.got || max(d.Wait, -1) != step.wait {
				t.Errorf("%v: %d departures, wait %v, %v; want %d, %v", step.classes, len(d.Jobs), d.Wait, err, step.got, step.wait)
			}
			for _, j := range d.Jobs {
				if step.classes != nil && !slices.Contains(step.classes, j.Class) {
					t.Errorf("%v: got a job of %s", step.classes, j.Class)
				}
			}
		}
	})
}

// TestDataLoss: a worker whom Redis has forgotten goes on with its second call, and no bucket lets go before an interval
// has passed since then.
func TestDataLoss(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c, ctx := openAt(t, rdb, 1), t.Context()
		outlet := c.Outlet("w", 0)
		for range 3 {
			_, err := outlet.Depart(ctx, queue.Ask{Want: 1})
			must(t, err)
		}
		must(t, rdb.FlushAll(ctx).Err())
		must(t, c.SetClock(ctx, start))
		put(t, c, "c", 10, "10/1s")
		if _, err := outlet.Depart(ctx, queue.Ask{Want: 1}); !errors.Is(err, queue.ErrRefused) {
			t.Errorf("forgotten: %v, want it refused", err)
		}
		admit(t, c, newJob("c", "k", "1"))
		d, err := outlet.Depart(ctx, queue.Ask{Want: 1})
		if err != nil || len(d.Jobs) != 0 || d.Wait != 100*time.Millisecond || d.Rollback == nil || !d.Rollback.Since.Equal(at(0)) {
			t.Errorf("next call: %+v, %v; want a rollback and a wait of one interval", d, err)
		}
		must(t, c.SetClock(ctx, start+100_000))
		if d, err := outlet.Depart(ctx, queue.Ask{Want: 1}); err != nil || len(d.Jobs) != 1 || d.Rollback != nil {
			t.Errorf("an interval later: %+v, %v; want one job", d, err)
		}
	})
}

// TestMoreThanABatch: what comes by hundreds is done in order and completely, however little one call does.
func TestMoreThanABatch(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c, ctx := openAt(t, rdb, 1), t.Context()
		put(t, c, "fast", 1000, "10000/1s", func(c *queue.Class) { c.CatchUp = time.Second })
		put(t, c, "slow", 1, "1/1h")
		var want []string
		for i := range 350 {
			job := newJob("fast", "k", fmt.Sprint(i))
			if want = append(want, job.ID); i < 250 {
				job.NotBefore = at(100_000)
			}
			if i == 250 {
				must(t, c.SetClock(ctx, start+200_000)) // the delayed ones are to join, and nobody has looked
			}
			admit(t, c, job)
		}
		outlet, now := c.Outlet("w", 0), start+200_000
		var got []string
		for len(got) < 350 && now < start+400_000 {
			now += 10_000
			must(t, c.SetClock(ctx, now))
			d, err := outlet.Depart(ctx, queue.Ask{Want: 100})
			must(t, err)
			for _, j := range d.Jobs {
				got = append(got, j.ID)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("departures (-want +got):\n%s", diff)
		}
		if n, err := outlet.Leave(ctx); n != 350 || err != nil {
			t.Errorf("%d returned, %v; want 350", n, err)
		}
		if n, err := c.Classes().PurgeWaiting(ctx, "fast"); n != 350 || err != nil {
			t.Errorf("%d purged, %v; want 350", n, err)
		}
		for i := range 350 {
			admit(t, c, newJob("slow", fmt.Sprint(i), "1"))
		}
		if ids := departAll(t, c); len(ids) != 350 {
			t.Errorf("%d of 350 buckets departed", len(ids))
		}
	})
}

// TestManyExpireAtOnce: jobs that waited too long hold no place that another one needs, however many they are.
func TestManyExpireAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c, ctx := openAt(t, rdb, 1), t.Context()
		put(t, c, "c", 250, "1000/1s")
		jobs := newJobs("c", "k", 250)
		for i := range jobs {
			jobs[i].MaxWait = time.Second
		}
		admit(t, c, jobs...)
		must(t, c.SetClock(ctx, start+2_000_000))
		if r := admit(t, c, newJob("c", "k", "new"))[0]; r.Level != 151 {
			t.Errorf("level %d, want 151: a batch of the expired gone", r.Level)
		}
		outlet := c.Outlet("w", 0)
		d, err := outlet.Depart(ctx, queue.Ask{Want: 10})
		if err != nil || len(d.Jobs) != 1 || d.Jobs[0].ID != "new" {
			t.Errorf("%+v, %v; want the new one", d, err)
		}
		if books, err := c.Books(ctx, "c"); err != nil || books.Expired != 250 || books.Departed != 1 || books.Waiting() != 0 {
			t.Errorf("books: %+v, %v; want 250 expired", books, err)
		}
	})
}

// TestReplySize: the payloads of one reply stay below a megabyte, and nothing is held up by that.
func TestReplySize(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c, ctx := openAt(t, rdb, 1), t.Context()
		put(t, c, "c", 10, "10000/1s", func(c *queue.Class) { c.MaxPayload, c.CatchUp = 1<<20, time.Second })
		sizes := []int{3, 400_000, 300_000, 400_000, 1 << 20, 3, 3, 1 << 20, 400_000, 10}
		for i, size := range sizes {
			job := newJob("c", fmt.Sprint("k", i%2), fmt.Sprint(i))
			job.Payload = slices.Concat([]byte(`"`), bytes.Repeat([]byte("x"), size-2), []byte(`"`))
			admit(t, c, job)
		}
		must(t, c.SetClock(ctx, start+900_000))
		outlet, got := c.Outlet("w", 0), 0
		for range 20 {
			d, err := outlet.Depart(ctx, queue.Ask{Want: 100})
			must(t, err)
			total := 0
			for _, j := range d.Jobs {
				if i := parse(j.ID); len(j.Payload) != sizes[i] {
					t.Errorf("payload of job %d has %d bytes, want %d", i, len(j.Payload), sizes[i])
				}
				total += len(j.Payload)
			}
			if got += len(d.Jobs); total > 1<<20 || len(d.Jobs) == 0 && got < len(sizes) {
				t.Errorf("%d jobs with %d bytes in one reply, %d so far", len(d.Jobs), total, got)
			}
		}
		if got != len(sizes) {
			t.Errorf("%d jobs departed, want %d", got, len(sizes))
		}
	})
}
