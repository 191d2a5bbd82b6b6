package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

const dead = 100_000

// buryMany fills the dead jobs of class c, by pipelined writes in the format of the scripts; all but the newest, of key
// "rare", are of key "k". Their books balance.
func buryMany(t fataler, rdb *redis.Client, n int) {
	t.Helper()
	ctx := context.Background()
	pipe := rdb.Pipeline()
	for i := range n {
		ref := fmt.Sprintf("0-%022d", i)
		pipe.HSet(ctx, "{spout:0}:job:"+ref, "run", fmt.Sprint(i, "\nt\nnull"), "is", fmt.Sprint("0123456789abcdef", i, "\nc/k"),
			"meta", fmt.Sprintf("%d %d 0 1 1 1", start, start), "state", "dead", "error", "no", "ended", start+int64(i),
			"past", "0 1 1 0", "a1", fmt.Sprintf("failed %d 0 0 %d w\nno", start, start))
		pipe.ZAdd(ctx, "{spout:0}:dead:c", redis.Z{Score: float64(start + int64(i)), Member: ref})
		if i%1000 == 999 || i == n-1 {
			_, err := pipe.Exec(ctx)
			must(t, err)
		}
	}
	for _, field := range []string{"admitted", "departed", "dead"} {
		must(t, rdb.HIncrBy(ctx, "{spout:0}:stats:c", field, int64(n)).Err())
	}
}

// graveyard is a client of one shard with a class of n dead jobs.
func graveyard(t fataler, rdb *redis.Client, n int) *queue.Client {
	t.Helper()
	ctx := context.Background()
	c, err := queue.OpenWithClock(ctx, rdb, queue.Options{Shards: 1})
	must(t, err)
	must(t, c.SetClock(ctx, start+micros(time.Hour)))
	class := queue.NewClass("c", 1_000_000, queue.Rate{Limit: 1000, Period: time.Second})
	_, err = c.Classes().Put(ctx, class)
	must(t, err)
	buryMany(t, rdb, n)
	return c
}

// TestManyDead: a page of a hundred thousand dead jobs, one that is sent round again, and one that dies cost what they would
// cost among ten.
func TestManyDead(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		n := dead
		if raceEnabled {
			n /= 10
		}
		c, ctx := graveyard(t, rdb, n), t.Context()
		h := tapped(rdb)
		cost := func(what string, commands, trips int) {
			t.Helper()
			names, roundTrips := h.taken()
			if len(names) > commands || roundTrips > trips {
				t.Errorf("%s: %d commands in %d round trips, want at most %d in %d", what, len(names), roundTrips, commands, trips)
			}
		}
		jobs, err := c.Dead().List(ctx, queue.DeadQuery{Class: "c", Limit: 100})
		if err != nil || len(jobs) != 100 || jobs[0].ID != fmt.Sprint(n-1) || jobs[99].ID != fmt.Sprint(n-100) {
			t.Fatalf("%d jobs, %v", len(jobs), err)
		}
		cost("first page", 110, 5)
		middle := time.UnixMicro(start + int64(n/2))
		jobs, err = c.Dead().List(ctx, queue.DeadQuery{Class: "c", Limit: 100, Before: middle})
		if err != nil || len(jobs) != 100 || jobs[0].ID != fmt.Sprint(n/2-1) {
			t.Fatalf("%d jobs, %v", len(jobs), err)
		}
		cost("page in the middle", 110, 5)
		jobs, err = c.Dead().List(ctx, queue.DeadQuery{Class: "c", Key: "k", Limit: 10, Before: middle})
		if err != nil || len(jobs) != 10 || jobs[0].ID != fmt.Sprint(n/2-1) {
			t.Fatalf("%d jobs, %v", len(jobs), err)
		}
		cost("page of a bucket", 1015, 5) // it looks through a thousand at a time, and reads ten
		if _, err := c.Dead().Retry(ctx, jobs[0].Ref); err != nil {
			t.Error(err)
		}
		cost("retry", 2, 2)
		outlet := c.Outlet("w", 0)
		d, err := outlet.Depart(ctx, queue.Ask{Want: 1})
		if err != nil || len(d.Jobs) != 1 {
			t.Fatalf("%+v, %v", d, err)
		}
		_, err = outlet.Settle(ctx, []queue.Verdict{{Ref: d.Jobs[0].Ref, Stamp: d.Jobs[0].Stamp, Class: "c", Outcome: queue.Dead}})
		must(t, err)
		cost("depart and die again", 4, 4)
		accounts, err := c.Audit(ctx, "c")
		if err != nil || accounts[0].Off != nil || accounts[0].Dead != int64(n) {
			t.Errorf("%+v, %v", accounts, err)
		}
	})
}

// BenchmarkDeadPage is a page of 100 of a hundred thousand dead jobs.
func BenchmarkDeadPage(b *testing.B) {
	c := graveyard(b, redistest.Start(b).Client(b), dead)
	for i := 0; b.Loop(); i++ {
		before := time.UnixMicro(start + int64(dead-100*(i%900)))
		jobs, err := c.Dead().List(b.Context(), queue.DeadQuery{Class: "c", Limit: 100, Before: before})
		if err != nil || len(jobs) != 100 {
			b.Fatal(len(jobs), err)
		}
	}
}

// BenchmarkDeadRetry sends one of a hundred thousand dead jobs round again.
func BenchmarkDeadRetry(b *testing.B) {
	rdb := redistest.Start(b).Client(b)
	c := graveyard(b, rdb, dead)
	for i := 0; b.Loop(); i++ {
		if i%dead == dead-1 {
			b.StopTimer()
			buryMany(b, rdb, dead)
			b.StartTimer()
		}
		_, err := c.Dead().Retry(b.Context(), fmt.Sprintf("0-%022d", i%dead))
		if err != nil && queue.ReasonOf(err) != queue.ReasonFull {
			b.Fatal(err)
		}
	}
}

// held is how long Redis itself took for the last EVALSHA, by the wall clock and of the processor; on a machine with other
// things to do the second is what counts.
type held struct{ wall, cpu float64 }

func (h *held) begin(b *testing.B, rdb *redis.Client) {
	b.Helper()
	must(b, rdb.SlowLogReset(b.Context()).Err())
	h.cpu = cpuTime(b, rdb)
}

func (h *held) end(b *testing.B, rdb *redis.Client) {
	b.Helper()
	h.cpu = cpuTime(b, rdb) - h.cpu
	slow, err := rdb.SlowLogGet(b.Context(), -1).Result()
	must(b, err)
	for _, entry := range slow {
		if strings.EqualFold(entry.Args[0], "evalsha") {
			h.wall = float64(entry.Duration.Microseconds())
		}
	}
}

// cpuTime is what Redis's main thread has used, in microseconds.
func cpuTime(b *testing.B, rdb *redis.Client) float64 {
	b.Helper()
	info, err := rdb.InfoMap(b.Context(), "cpu").Result()
	must(b, err)
	var user, system float64
	_, err = fmt.Sscan(info["CPU"]["used_cpu_user_main_thread"]+" "+info["CPU"]["used_cpu_sys_main_thread"], &user, &system)
	must(b, err)
	return (user + system) * 1e6
}

// benchSixtyFour has 64 departures of 64 buckets of a class end in one call, b.N times, and reports how long Redis was held.
func benchSixtyFour(b *testing.B, change func(*queue.Class), end func(c *queue.Client, outlet *queue.Outlet, jobs []queue.Departure)) {
	b.Helper()
	rdb, ctx := redistest.Start(b).Client(b), b.Context()
	c, err := queue.OpenWithClock(ctx, rdb, queue.Options{Shards: 1})
	must(b, err)
	now := start
	must(b, c.SetClock(ctx, now))
	class := queue.NewClass("c", 1000, queue.Rate{Limit: 1, Period: time.Second})
	class.Retry.MaxAttempts, class.MaxCrashes = 100, 100
	change(&class)
	_, err = c.Classes().Put(ctx, class)
	must(b, err)
	must(b, rdb.ConfigSet(ctx, "slowlog-log-slower-than", "0").Err())
	must(b, rdb.ConfigSet(ctx, "slowlog-max-len", "2000").Err())
	var walls, cpus []float64
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		if n%50 == 0 { // before histories become long and jobs suspect
			refill(b, c, n)
		}
		now += 2_000_000
		must(b, c.SetClock(ctx, now))
		outlet := c.Outlet(fmt.Sprint("w", n), 0)
		var jobs []queue.Departure
		for len(jobs) < queue.SettleMost {
			d, err := outlet.Depart(ctx, queue.Ask{Want: queue.SettleMost, Suspect: true})
			if err != nil || len(d.Jobs) == 0 {
				b.Fatal(len(jobs), err)
			}
			jobs = append(jobs, d.Jobs...)
		}
		var h held
		h.begin(b, rdb)
		b.StartTimer()
		end(c, outlet, jobs)
		b.StopTimer()
		h.end(b, rdb)
		walls, cpus = append(walls, h.wall), append(cpus, h.cpu)
		b.StartTimer()
	}
	slices.Sort(walls)
	slices.Sort(cpus)
	b.ReportMetric(walls[len(walls)/2], "redis-us-p50")
	b.ReportMetric(walls[0], "redis-us-min")
	b.ReportMetric(cpus[len(cpus)/2], "redis-cpu-us-p50")
	b.ReportMetric(cpus[len(cpus)*9/10], "redis-cpu-us-p90")
}

// refill leaves nothing in 64 buckets but 20 new jobs each.
func refill(b *testing.B, c *queue.Client, n int) {
	b.Helper()
	_, err := c.Classes().PurgeWaiting(b.Context(), "c")
	must(b, err)
	for k := range queue.SettleMost {
		jobs := newJobs("c", fmt.Sprint("k", k), 20)
		for i := range jobs {
			jobs[i].ID += fmt.Sprint(" ", n)
			jobs[i].MaxWait = 8000 * time.Hour
		}
		for _, r := range c.SubmitMany(b.Context(), jobs) {
			must(b, r.Err)
		}
	}
}

// verdictsOf says the same of all departures.
func verdictsOf(jobs []queue.Departure, verdict queue.Verdict) []queue.Verdict {
	verdicts := make([]queue.Verdict, len(jobs))
	for i, j := range jobs {
		verdicts[i] = verdict
		verdicts[i].Ref, verdicts[i].Stamp, verdicts[i].Class, verdicts[i].Due, verdicts[i].Started = j.Ref, j.Stamp, j.Class, j.Due, j.Due
	}
	return verdicts
}

// BenchmarkSettle64 is the time that Redis is held by a settle of 64 departures of as many buckets, with all that makes it
// slow: delays, expiry, bounds of what is out, errors of 4 KiB.
func BenchmarkSettle64(b *testing.B) {
	soon, text := time.Millisecond, strings.Repeat("x", 4<<10)
	for _, order := range []queue.Order{queue.Park, queue.Hold, queue.Tail} {
		b.Run("fail, order "+string(order), func(b *testing.B) {
			benchSixtyFour(b, func(c *queue.Class) { c.Retry.Order, c.MaxInFlight = order, 1 },
				func(_ *queue.Client, outlet *queue.Outlet, jobs []queue.Departure) {
					_, err := outlet.Settle(b.Context(), verdictsOf(jobs, queue.Verdict{Outcome: queue.Failed, Error: text, RetryAfter: &soon}))
					must(b, err)
				})
		})
	}
}

// BenchmarkReclaim64 is the same of a reclaim of a worker that had 64 departures.
func BenchmarkReclaim64(b *testing.B) {
	benchSixtyFour(b, func(c *queue.Class) { c.MaxInFlight = 1 },
		func(c *queue.Client, _ *queue.Outlet, jobs []queue.Departure) {
			beats, err := c.Beats(b.Context(), 0)
			must(b, err)
			r, err := c.Reclaim(b.Context(), 0, jobs[0].Worker, beats[jobs[0].Worker])
			if err != nil || r.Returned != len(jobs) {
				b.Fatalf("%+v, %v; want %d returned", r, err, len(jobs))
			}
		})
}
