package queue_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

// TestRetention: of a job that has ended, its whole life can be read for as long as its class says, and its identity is free.
func TestRetention(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s, ctx := newShop(t, rdb), t.Context()
		put(t, s.c, "c", 3, "1/1s", func(c *queue.Class) {
			c.Retention, c.Overflow, c.CatchUp = time.Hour, queue.DropOldest, 0
		})
		refs := endAll(t, s)
		common := queue.JobState{
			Class: "c", Key: "k", Type: queue.DefaultType, Payload: []byte("null"), AdmittedAt: at(0),
		}
		for i, change := range []func(*queue.JobState){
			func(j *queue.JobState) { j.State, j.EstimatedStart, j.EndedAt = queue.Dropped, at(0), at(0) },
			func(j *queue.JobState) {
				j.State, j.Attempts, j.GivenBack, j.Result = queue.Completed, 2, 1, []byte("{}")
				j.EstimatedStart, j.EndedAt = at(1_000_000), at(3_000_000)
				j.History = []queue.Attempt{
					{Number: 1, Outcome: "failed", Due: at(1_000_000), Started: at(1_000_002), Ended: at(1_000_000), Worker: "w", Error: "it broke"},
					{Number: 2, Outcome: "done", Due: at(2_900_000), Started: at(2_900_002), Ended: at(3_000_000), Worker: "w"},
				}
			},
			func(j *queue.JobState) {
				j.State, j.EstimatedStart, j.EndedAt = queue.Cancelled, at(2_000_000), at(3_000_000)
			},
			func(j *queue.JobState) {
				j.State, j.EstimatedStart, j.EndedAt, j.ExpiresAt = queue.Expired, at(2_000_000), at(3_000_000), at(2_500_000)
			},
		} {
			want := common
			want.Ref, want.ID = refs[i].Ref, refs[i].ID
			change(&want)
			got := s.state(refs[i].Ref)
			for k := range got.History { // a stamp is the time, or a little more
				got.History[k].Departed = time.Time{}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", want.State, diff)
			}
			if ttl := rdb.PTTL(ctx, "{spout:0}:ended:"+want.Ref).Val(); ttl > time.Hour || ttl < 50*time.Minute {
				t.Errorf("%s is kept for %v, want an hour", want.State, ttl)
			}
			admit(t, s.c, newJob("c", "k", want.ID))
			if j := s.state(want.Ref); j.State != queue.Line || j.Attempts != 0 {
				t.Errorf("submitted again: %+v; want the new one", j)
			}
			_, err := s.c.Buckets().Purge(ctx, "c", "k")
			must(t, err)
			if j := s.state(want.Ref); j.State != want.State {
				t.Errorf("the new one is purged: %+v; want the old one", j)
			}
		}
		ref := admit(t, s.c, newJob("c", "k", "purged"))[0].Ref
		_, err := s.c.Buckets().Purge(ctx, "c", "k")
		must(t, err)
		if j, err := s.c.Job(ctx, ref); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("purged: %+v, %v; want nothing kept", j, err)
		}
		s.audited()
	})
}

// endAll has one job dropped, done at the second attempt, cancelled and expired.
func endAll(t *testing.T, s *shop) []queue.Receipt {
	t.Helper()
	expiring := newJob("c", "k", "expired")
	expiring.MaxWait = 2500 * time.Millisecond
	refs := admit(t, s.c, newJob("c", "k", "dropped"), newJob("c", "k", "done"), newJob("c", "k", "cancelled"), expiring)
	started := func(v *queue.Verdict) { v.Started = v.Due.Add(2 * time.Microsecond) }
	s.settle(s.one(), queue.Back, func(v *queue.Verdict) { v.Stale = true })
	s.advance(time.Second)
	s.settle(s.one(), queue.Failed, started, after(1900*time.Millisecond))
	must(t, s.c.Buckets().Pause(t.Context(), "c", "k"))
	s.advance(2 * time.Second)
	if _, err := s.c.Cancel(t.Context(), refs[2].Ref); err != nil {
		t.Error(err)
	}
	s.none() // it looks at the bucket, so what waited too long goes
	must(t, s.c.Buckets().Resume(t.Context(), "c", "k"))
	s.settle(s.one(), queue.Done, started, func(v *queue.Verdict) { v.Result = []byte("{}") })
	return refs
}

// TestRetentionAndDedup: within the dedup window the identity stays taken, and what is kept can be read beside it.
func TestRetentionAndDedup(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	s := newShop(t, rdb)
	put(t, s.c, "c", 10, "1/1s", func(c *queue.Class) { c.Retention, c.Dedup = time.Hour, 2*time.Hour })
	ref := admit(t, s.c, newJob("c", "k", "j"))[0].Ref
	s.settle(s.one(), queue.Done)
	look := func(want queue.State) {
		t.Helper()
		if j := s.state(ref); j.State != want {
			t.Errorf("%+v; want it %s", j, want)
		}
		if r, err := s.c.Submit(t.Context(), newJob("c", "k", "j")); err != nil || r.Status != queue.Duplicate || r.Ref != ref {
			t.Errorf("submitted again: %+v, %v; want a duplicate", r, err)
		}
	}
	look(queue.Completed)
	m.FastForward(59 * time.Minute)
	look(queue.Completed)
	m.FastForward(time.Minute)
	look(queue.Gone)
	m.FastForward(time.Hour)
	admit(t, s.c, newJob("c", "k", "j"))
}

// TestWhatIsKeptIsBounded: results, errors and histories have an end.
func TestWhatIsKeptIsBounded(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 10, "1/1s", func(c *queue.Class) { c.Retention, c.Retry.MaxAttempts = time.Hour, 100 })
		ref := admit(t, s.c, newJob("c", "k", "j"))[0].Ref
		long := bytes.Repeat([]byte("é"), 100_000)
		const attempts = 150
		for n := 1; n < attempts; n++ {
			s.advance(time.Second)
			s.settle(s.one(), queue.Failed, after(0), func(v *queue.Verdict) { v.Error = string(long) })
			if n == 100 {
				_, err := s.c.Dead().Retry(t.Context(), ref)
				must(t, err)
			}
		}
		s.advance(time.Second)
		s.settle(s.one(), queue.Done, func(v *queue.Verdict) { v.Result = long })
		j := s.state(ref)
		if !bytes.Equal(j.Result, long[:queue.ResultMost]) {
			t.Errorf("%d bytes of the result are kept, want %d", len(j.Result), queue.ResultMost)
		}
		if j.Attempts != attempts || len(j.History) != 100 || j.History[0].Number != attempts-99 || j.History[99].Number != attempts {
			t.Errorf("%d attempts, %d in the history, from %d on; want the last 100 of %d", j.Attempts, len(j.History), j.History[0].Number, attempts)
		}
		if text := j.History[0].Error; len(text) > 4<<10 || len(text) < 4000 {
			t.Errorf("%d bytes of an error are kept", len(text))
		}
		if fields := rdb.HLen(t.Context(), "{spout:0}:ended:"+ref).Val(); fields > 120 {
			t.Errorf("%d fields are kept", fields)
		}
	})
}
