package queue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// stampOf is when a job departed, as its stamp says.
func stampOf(d queue.Departure) time.Time { return time.UnixMicro(parse(d.Stamp)).UTC() }

func at(us int64) time.Time { return time.UnixMicro(start + us).UTC() }

// TestJobStates reads one job in every state it can be in.
func TestJobStates(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c, ctx := openAt(t, rdb, 2), t.Context()
		put(t, c, "c", 10, "1/1s", func(c *queue.Class) { c.MaxWait = time.Minute })
		later := newJob("c", "k", "later")
		later.NotBefore, later.Type = at(30_000_000), "mine"
		rs := admit(t, c, newJob("c", "k", "failed"), newJob("c", "k", "out"), newJob("c", "k", "first"), newJob("c", "k", "second"), later)
		outlet := c.Outlet("w", int(rs[0].Ref[0]-'0'))
		depart := func() queue.Departure {
			t.Helper()
			d, err := outlet.Depart(ctx, queue.Ask{Want: 1})
			if err != nil || len(d.Jobs) != 1 {
				t.Fatalf("%+v, %v; want one departure", d, err)
			}
			return d.Jobs[0]
		}
		failed := depart()
		_, err := outlet.Settle(ctx, []queue.Verdict{{Ref: failed.Ref, Stamp: failed.Stamp, Outcome: queue.Dead, Error: "it broke \xff"}})
		must(t, err)
		must(t, c.SetClock(ctx, start+1_000_000))
		out := depart()
		common := queue.JobState{Class: "c", Key: "k", Type: queue.DefaultType, Payload: []byte("null"), AdmittedAt: at(0), ExpiresAt: at(60_000_000)}
		for i, change := range []func(*queue.JobState){
			func(j *queue.JobState) {
				j.State, j.Attempts, j.Error, j.EndedAt = queue.Kept, 1, "it broke \ufffd", at(0)
				j.History = []queue.Attempt{{
					Number: 1, Outcome: "failed", Departed: stampOf(failed), Ended: at(0), Worker: "w", Error: j.Error,
				}}
			},
			func(j *queue.JobState) { j.State, j.Worker, j.DepartedAt = queue.Out, "w", stampOf(out) },
			func(j *queue.JobState) { j.State, j.Position = queue.Line, 1 },
			func(j *queue.JobState) { j.State, j.Position = queue.Line, 2 },
			func(j *queue.JobState) {
				j.State, j.Type, j.NotBefore, j.ExpiresAt = queue.Later, "mine", at(30_000_000), at(90_000_000)
			},
		} {
			want := common
			want.Ref, want.ID, want.EstimatedStart = rs[i].Ref, rs[i].ID, rs[i].EstimatedStart
			change(&want)
			got, err := c.Job(ctx, rs[i].Ref)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", rs[i].ID, err, diff)
			}
		}
		must(t, c.SetClock(ctx, start+31_000_000))
		for range 3 {
			departAll(t, c)
			must(t, c.SetClock(ctx, start+40_000_000))
		}
		if j, err := c.Job(ctx, rs[4].Ref); err != nil || j.State != queue.Line || j.Position != 1 || j.NotBefore != at(30_000_000) {
			t.Errorf("it has joined the line: %+v, %v", j, err)
		}
		for _, ref := range []string{"", "x", "0-", "9-" + rs[0].Ref[2:], "0-" + rs[0].Ref[2:20], rs[0].Ref + "x", "-1-" + rs[0].Ref[2:]} {
			if _, err := c.Job(ctx, ref); !errors.Is(err, queue.ErrInvalid) {
				t.Errorf("ref %q: %v, want it invalid", ref, err)
			}
		}
		if _, err := c.Job(ctx, "0-aaaaaaaaaaaaaaaaaaaaaa"); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("a job that never was: %v", err)
		}
	})
}

// TestListings: buckets by level, waiting jobs in order of departure, the dead newest first, over all shards.
func TestListings(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c, ctx := openAt(t, rdb, 4), t.Context()
		put(t, c, "c", 10, "1/1h")
		for k := range 6 {
			admit(t, c, newJobs("c", fmt.Sprint("k", k), k+1)...)
		}
		must(t, c.Buckets().Pause(ctx, "c", "empty"))
		must(t, c.Buckets().Pause(ctx, "c", "k5"))
		list, err := c.Buckets().List(ctx, "c", 100)
		must(t, err)
		var names []string
		for _, b := range list {
			names = append(names, fmt.Sprint(b.Name(), " ", b.Level, b.Paused))
		}
		want := []string{"c/k5 6 true", "c/k4 5 false", "c/k3 4 false", "c/k2 3 false", "c/k1 2 false", "c/k0 1 false", "c/empty 0 true"}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("buckets (-want +got):\n%s", diff)
		}
		if list, err := c.Buckets().List(ctx, "c", 2); err != nil || len(list) != 2 {
			t.Errorf("two buckets: %v, %v", list, err)
		}
		waiting(t, c, "k5", 100, "j0", "j1", "j2", "j3", "j4", "j5")
		waiting(t, c, "k5", 2, "j0", "j1")
		if all, err := c.Jobs(ctx, "c", "", false, 15); err != nil || len(all) != 15 {
			t.Errorf("15 of all jobs: %d, %v", len(all), err)
		}
		must(t, c.Buckets().Resume(ctx, "c", "k5"))
		buryAll(t, c)
		dead, err := c.Jobs(ctx, "c", "", true, 4)
		must(t, err)
		if len(dead) != 4 || !slices.IsSortedFunc(dead, func(a, b queue.JobState) int { return b.EndedAt.Compare(a.EndedAt) }) {
			t.Errorf("the dead are not the newest first: %+v", dead)
		}
		if all, err := c.Jobs(ctx, "c", "", true, 100); err != nil || len(all) != 6 || !cmp.Equal(all[:4], dead) {
			t.Errorf("all dead: %+v, %v", all, err)
		}
		for k := range 6 {
			if of, err := c.Jobs(ctx, "c", fmt.Sprint("k", k), true, 1); err != nil || len(of) != 1 || of[0].Key != fmt.Sprint("k", k) {
				t.Errorf("the dead of k%d: %+v, %v", k, of, err)
			}
		}
	})
}

func waiting(t *testing.T, c *queue.Client, key string, limit int, want ...string) {
	t.Helper()
	jobs, err := c.Jobs(t.Context(), "c", key, false, limit)
	var got []string
	for i, j := range jobs {
		if got = append(got, j.ID); j.State != queue.Line || j.Position != i+1 {
			t.Errorf("job %d: %+v", i, j)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("jobs of %s: %v (-want +got):\n%s", key, err, diff)
	}
}

// buryAll departs one job of every bucket, a second after the other, and has it dead.
func buryAll(t *testing.T, c *queue.Client) {
	t.Helper()
	now := start
	for busy := true; busy; {
		busy = false
		for shard := range c.Shards() {
			now += 1_000_000
			must(t, c.SetClock(t.Context(), now))
			outlet := c.Outlet(fmt.Sprint("worker ", workers.Add(1)), shard)
			d, err := outlet.Depart(t.Context(), queue.Ask{Want: 1})
			must(t, err)
			for _, j := range d.Jobs {
				busy = true
				_, err := outlet.Settle(t.Context(), []queue.Verdict{{Ref: j.Ref, Stamp: j.Stamp, Outcome: queue.Dead, Error: "no"}})
				must(t, err)
			}
		}
	}
}

// TestBucketState reads one bucket as it fills, departs and rests.
func TestBucketState(t *testing.T) {
	t.Parallel()
	c, ctx := openAt(t, redistest.MiniClient(t), 1), t.Context()
	class, now := put(t, c, "c", 10, "7/1s"), at(0)
	check := func(what string, change func(*queue.Bucket)) {
		t.Helper()
		want := queue.Bucket{
			Class: "c", Key: "k", Capacity: 10, Rate: class.Rate, Out: -1, At: now, Interval: class.Rate.Interval(),
		}
		change(&want)
		got, err := c.Buckets().Get(ctx, "c", "k")
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
		}
	}
	check("never used", func(*queue.Bucket) {})
	later := newJob("c", "k", "later")
	later.NotBefore = at(5_000_000)
	admit(t, c, newJob("c", "k", "now"), later)
	check("filled", func(b *queue.Bucket) { b.Level, b.Line, b.Later, b.Due = 2, 1, 1, at(0) })
	departAll(t, c)
	check("departed", func(b *queue.Bucket) { b.Level, b.Later, b.Due = 1, 1, at(142_858) })
	must(t, c.Classes().Pause(ctx, "c"))
	if n, err := c.Buckets().Purge(ctx, "c", "k"); n != 1 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	check("purged and its class paused", func(b *queue.Bucket) { b.Paused, b.Due = true, at(142_858) })
	must(t, c.Classes().Resume(ctx, "c"))
	now = at(142_858)
	must(t, c.SetClock(ctx, now.UnixMicro()))
	departAll(t, c)
	check("forgotten", func(*queue.Bucket) {})
	if _, err := c.Buckets().Get(ctx, "c", ""); !errors.Is(err, queue.ErrInvalid) {
		t.Errorf("no key: %v", err)
	}
}

// TestJSON pins the shapes that every door of the service uses.
func TestJSON(t *testing.T) {
	t.Parallel()
	receipt := queue.Receipt{
		Ref: "0-x", ID: "i", Status: queue.Admitted, Position: 2, Level: 3, Capacity: 5,
		EstimatedStart: at(1), Wait: 1001 * time.Microsecond,
	}
	const stamp = `"2023-11-14T22:13:20.000001Z"`
	for want, v := range map[string]any{
		`{"ref":"0-x","id":"i","status":"admitted","position":2,"level":3,"capacity":5,"estimated_start":` + stamp + `,"wait_ms":2}`: receipt,
		`{"class":"c","key":"k","level":3,"capacity":5,"line":1,"later":2,"rate":"7/1s","due":` + stamp + `,"paused":true,"sick":"s"}`: queue.Bucket{
			Class: "c", Key: "k", Level: 3, Line: 1, Later: 2, Capacity: 5, Rate: queue.Rate{Limit: 7, Period: time.Second},
			Due: at(1), Paused: true, Out: -1, Sick: "s",
		},
		`{"class":"c","key":"k","level":0,"capacity":5,"line":0,"later":0,"rate":"7/1s","hold":` + stamp + `,"paused":false,"draining":true,"out":0}`: queue.Bucket{
			Class: "c", Key: "k", Capacity: 5, Rate: queue.Rate{Limit: 7, Period: time.Second}, Draining: true, Hold: at(1),
		},
		`{"ref":"0-x","class":"c","key":"k","id":"i","state":"gone","admitted_at":` + stamp + `}`: queue.JobState{
			Ref: "0-x", Class: "c", Key: "k", ID: "i", State: queue.Gone, AdmittedAt: at(1),
		},
		`{"ref":"0-x","class":"c","key":"k","id":"i","type":"t","state":"dead","position":1,"admitted_at":` + stamp + `,"estimated_start":` + stamp +
			`,"not_before":` + stamp + `,"expires_at":` + stamp + `,"worker":"w","attempts":2,"error":"e","ended_at":` + stamp + `,"payload":[1]}`: queue.JobState{
			Ref: "0-x", Class: "c", Key: "k", ID: "i", Type: "t", State: queue.Kept, Position: 1, AdmittedAt: at(1), EstimatedStart: at(1),
			NotBefore: at(1), ExpiresAt: at(1), Worker: "w", Attempts: 2, Error: "e", EndedAt: at(1), Payload: []byte("[1]"),
		},
		`{"ref":"0-x","id":"i","status":"admitted","position":1,"level":1,"capacity":1,"estimated_start":` + stamp +
			`,"wait_ms":0,"ack":"replicated(2)","dropped":"0-y"}`: queue.Receipt{
			Ref: "0-x", ID: "i", Status: queue.Admitted, Position: 1, Level: 1, Capacity: 1, EstimatedStart: at(1),
			Ack: queue.AckReplicated(2), Dropped: "0-y",
		},
		`{"number":3,"outcome":"failed","due":` + stamp + `,"departed":` + stamp + `,"started":"2023-11-14T22:13:20.001501Z","lateness_ms":1.5,` +
			`"ended":` + stamp + `,"worker":"w","error":"e"}`: queue.Attempt{
			Number: 3, Outcome: "failed", Due: at(1), Departed: at(1), Started: at(1501), Ended: at(1), Worker: "w", Error: "e",
		},
		`{"ref":"0-x","class":"c","key":"k","id":"i","type":"t","state":"out","admitted_at":` + stamp + `,"departed_at":` + stamp +
			`,"given_back":1,"crashes":2,"cancelling":true,"history":[{"number":1,"outcome":"crashed","departed":` + stamp +
			`,"ended":` + stamp + `,"worker":"w"}],"result_base64":"/w=="}`: queue.JobState{
			Ref: "0-x", Class: "c", Key: "k", ID: "i", Type: "t", State: queue.Out, AdmittedAt: at(1), DepartedAt: at(1), GivenBack: 1,
			Crashes: 2, Cancelling: true, Result: []byte{255},
			History: []queue.Attempt{{Number: 1, Outcome: "crashed", Departed: at(1), Ended: at(1), Worker: "w"}},
		},
		`{"ref":"0-x","class":"c","key":"k","id":"i","state":"done","admitted_at":` + stamp + `,"ended_at":` + stamp + `,"result":"{}"}`: queue.JobState{
			Ref: "0-x", Class: "c", Key: "k", ID: "i", State: queue.Completed, AdmittedAt: at(1), EndedAt: at(1), Result: []byte("{}"),
		},
	} {
		if got, err := json.Marshal(v); err != nil || string(got) != want {
			t.Errorf("%s, %v\nwant %s", got, err, want)
		}
	}
	for d, want := range map[time.Duration]int64{-1: 0, 0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2} {
		if got := queue.Millis(d); got != want {
			t.Errorf("Millis(%v) = %d, want %d", d, got, want)
		}
	}
}
