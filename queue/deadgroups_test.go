package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

func TestAlike(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                               "",
		"timed out after 30s":            "timed out after #s",
		"timed out after 1.5s":           "timed out after #s",
		`Get "https://a.example/7": EOF`: "Get ‹…›: EOF",
		"no order '17 b'":                "no order ‹…›",
		"user 3f2b8c1e-9d4a-4b7e-8f00-0123456789ab is gone": "user ‹id› is gone",
		"commit deadbeef01 of 0x00ff00ff00":                 "commit ‹id› of ‹id›",
		"defaced facade":                                    "defaced facade",
		"dial tcp 10.0.0.7:8080: refused\nat line 3":        "dial tcp #:#: refused",
		`say "he said \"7\"" again`:                         "say ‹…› again",
		"order 12345678901":                                 "order #",
	} {
		if got := queue.Alike(text); got != want {
			t.Errorf("%q is folded to %q, want %q", text, got, want)
		}
	}
	if got := queue.Alike(strings.Repeat("ü", 300)); len(got) > 200 || !strings.HasSuffix(got, "ü…") {
		t.Errorf("%q", got)
	}
}

func TestDeadGroups(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := openAt(t, rdb, 2)
		put(t, c, "c", 2000, "10000/1s")
		die := func(key, id, why string) string {
			ref := admit(t, c, newJob("c", key, id))[0].Ref
			for shard := range c.Shards() {
				outlet := c.Outlet(fmt.Sprint("worker ", workers.Add(1)), shard)
				d, err := outlet.Depart(t.Context(), queue.Ask{Want: 10})
				must(t, err)
				for _, j := range d.Jobs {
					_, err := outlet.Settle(t.Context(), []queue.Verdict{{Ref: j.Ref, Stamp: j.Stamp, Outcome: queue.Dead, Error: why}})
					must(t, err)
				}
			}
			return ref
		}
		if g, err := c.Dead().Groups(t.Context(), "c", 5); err != nil || len(g.Groups) != 0 || g.Kept != 0 {
			t.Fatalf("nothing is dead: %+v, %v", g, err)
		}
		newest := ""
		for i := range 30 {
			must(t, c.SetClock(t.Context(), start+micros(time.Duration(i)*time.Minute)))
			newest = die(fmt.Sprint("k", i%12), fmt.Sprint("a", i), fmt.Sprintf("status 500 of order %d", i))
			if i%3 == 0 {
				die("other", fmt.Sprint("b", i), `no route to "host`+fmt.Sprint(i)+`"`)
			}
		}
		die("one", "1", "alone")
		g, err := c.Dead().Groups(t.Context(), "c", 2)
		must(t, err)
		if g.Looked != 41 || g.Kept != 41 || g.Others != 1 || len(g.Groups) != 2 {
			t.Fatalf("%+v", g)
		}
		first, second := g.Groups[0], g.Groups[1]
		if first.Text != "status # of order #" || first.Count != 30 || first.Example != newest || first.Error != "status 500 of order 29" ||
			!first.Newest.Equal(time.UnixMicro(start).Add(29*time.Minute)) || first.KeyCount != 12 || len(first.Keys) != 10 || first.Keys[0] != "k0" {
			t.Errorf("%+v", first)
		}
		if second.Count != 10 || !slices.Equal(second.Keys, []string{"other"}) || second.Text != "no route to ‹…›" {
			t.Errorf("%+v", second)
		}
		job, err := c.Job(t.Context(), first.Example)
		if err != nil || job.State != queue.Kept {
			t.Errorf("the example: %+v, %v", job, err)
		}
		for _, key := range rdb.Keys(t.Context(), "*:job:"+newest).Val() { // as it is when it goes round again meanwhile
			must(t, rdb.HDel(t.Context(), key, "ended").Err())
		}
		g, err = c.Dead().Groups(t.Context(), "c", 2)
		if must(t, err); g.Looked != 40 || g.Groups[0].Count != 29 {
			t.Errorf("a job that is not dead any more counts: %+v", g)
		}
	})
}
