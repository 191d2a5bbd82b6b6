package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

func jobPages(t *testing.T, c *queue.Client, q queue.JobQuery, between func()) []string {
	t.Helper()
	return pages(t, q.Limit+10, func(j queue.JobState) string { return j.Key + " " + j.ID }, func(after string) ([]queue.JobState, string, error) {
		q.After = after
		jobs, next, err := c.JobPage(t.Context(), q)
		if between != nil {
			between()
		}
		return jobs, next, err
	})
}

func TestJobPages(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := openAt(t, rdb, 3)
		put(t, c, "c", 1000, "1/1s", func(c *queue.Class) { c.Retry.MaxAttempts = 1 })
		put(t, c, "other", 1000, "1/1s")
		var line, later []string
		var jobs []queue.Job
		for i := range 250 {
			jobs = append(jobs, newJob("c", "long", fmt.Sprint(i)))
			line = append(line, fmt.Sprint("long ", i))
		}
		for i := range 30 {
			jobs = append(jobs, newJob("c", "long", fmt.Sprint("later ", i)))
			jobs[len(jobs)-1].NotBefore = time.UnixMicro(start).Add(time.Hour) // all at the same moment
			later = append(later, fmt.Sprint("long later ", i))
		}
		all := slices.Concat(line, later)
		for i := range 40 {
			jobs = append(jobs, newJob("c", fmt.Sprint("short ", i), "1"), newJob("other", "k", fmt.Sprint(i)))
			all = append(all, fmt.Sprint("short ", i, " 1"))
		}
		receipts := admit(t, c, jobs...)

		long := queue.JobQuery{Class: "c", Key: "long", State: queue.Line, Limit: 33}
		if got := jobPages(t, c, long, nil); !slices.Equal(got, line) {
			t.Errorf("a line: %q", got)
		}
		long.State = queue.Waiting
		if got := jobPages(t, c, long, nil); !slices.Equal(got[:250], line) || len(got) != 280 {
			t.Errorf("what waits in a bucket: %q", got)
		}
		long.State, long.Limit = queue.Later, 7
		once(t, "later", jobPages(t, c, long, nil), later)
		once(t, "all of a class", jobPages(t, c, queue.JobQuery{Class: "c", Limit: 12}, nil), all)
		shard := "{spout:" + receipts[0].Ref[:1] + "}"
		must(t, rdb.ZRem(t.Context(), shard+":due:c", "c/long").Err())
		must(t, rdb.HSet(t.Context(), shard+":sick", "c/long", "broken").Err())
		once(t, "all of a class with a sick bucket", jobPages(t, c, queue.JobQuery{Class: "c", Limit: 10}, nil), all)
		empty := queue.JobQuery{Class: "c", Key: "nobody", Limit: 12}
		once(t, "an empty bucket", jobPages(t, c, empty, nil), nil)

		page, _, err := c.JobPage(t.Context(), queue.JobQuery{Class: "c", Key: "long", Limit: 2})
		must(t, err)
		if page[1].Position != 2 || page[1].State != queue.Line {
			t.Errorf("the second in line: %+v", page[1])
		}
	})
}

// Jobs leave between the pages, among them those that the page before ended with: none of the others is left out or comes twice.
func TestJobPagesWhileJobsLeave(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := openAt(t, rdb, 1)
		put(t, c, "c", 1000, "1/1s")
		receipts := admit(t, c, newJobs("c", "k", 60)...)
		at := time.UnixMicro(start).Add(time.Hour)
		var same []queue.Receipt
		for i := range 60 {
			job := newJob("c", "later", fmt.Sprint("l", i))
			job.NotBefore = at
			same = append(same, admit(t, c, job)...)
		}
		for _, list := range [][]queue.Receipt{receipts, same} {
			var want []string
			key := map[bool]string{true: "k", false: "later"}[&list[0] == &receipts[0]]
			for _, r := range list {
				want = append(want, key+" "+r.ID)
			}
			read := 0
			got := jobPages(t, c, queue.JobQuery{Class: "c", Key: key, Limit: 10}, func() {
				read += 10
				for i := max(0, read-3); i < min(read, 60); i++ { // the last ones that were shown
					_, err := c.Cancel(t.Context(), list[i].Ref)
					must(t, err)
				}
			})
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q", key, got)
			}
		}
	})
}

func TestPagesOfJobsOutAndDead(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := openAt(t, rdb, 2)
		put(t, c, "c", 10, "1/1s")
		put(t, c, "other", 10, "1/1s")
		var want []string
		var jobs []queue.Job
		for i := range 90 {
			jobs = append(jobs, newJob("c", fmt.Sprint("k", i), "1"), newJob("other", fmt.Sprint("k", i), "1"))
			want = append(want, fmt.Sprint("k", i, " 1"))
		}
		admit(t, c, jobs...)
		must(t, c.SetClock(t.Context(), start+micros(time.Minute)))
		out := map[int][]queue.Departure{}
		for n := range 4 {
			for shard := range c.Shards() {
				d, err := c.Outlet(fmt.Sprint("w", n), shard).Depart(t.Context(), queue.Ask{Want: 30})
				must(t, err)
				out[shard] = append(out[shard], d.Jobs...)
			}
		}
		once(t, "out", jobPages(t, c, queue.JobQuery{Class: "c", State: queue.Out, Limit: 13}, nil), want)
		once(t, "out of a bucket", jobPages(t, c, queue.JobQuery{Class: "c", Key: "k7", State: queue.Out, Limit: 1}, nil), []string{"k7 1"})
		page, _, err := c.JobPage(t.Context(), queue.JobQuery{Class: "c", Key: "k7", State: queue.Out})
		must(t, err)
		if len(page) != 1 || page[0].State != queue.Out || page[0].Worker == "" || !page[0].DepartedAt.Truncate(time.Millisecond).Equal(time.UnixMicro(start).Add(time.Minute)) {
			t.Errorf("a job that is out: %+v", page)
		}
		for shard, jobs := range out {
			for _, d := range jobs {
				_, err := c.Outlet(d.Worker, shard).Settle(t.Context(), []queue.Verdict{{
					Ref: d.Ref, Stamp: d.Stamp, Class: d.Class, Outcome: queue.Dead, Error: "it failed",
				}})
				must(t, err)
			}
		}
		once(t, "out", jobPages(t, c, queue.JobQuery{Class: "c", State: queue.Out, Limit: 13}, nil), nil)
		once(t, "dead", jobPages(t, c, queue.JobQuery{Class: "c", State: queue.Kept, Limit: 13}, nil), want)
	})
}
