package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// site is an installation that one worker drains as fast as it may.
type site struct {
	client *queue.Client

	mu       sync.Mutex
	departed map[string][]string // ids in order, by key
}

func newSite(t *testing.T, rdb redis.UniversalClient, classes ...queue.Class) *site {
	t.Helper()
	client, err := queue.Open(t.Context(), rdb, queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, class := range classes {
		if _, err := client.Classes().Put(t.Context(), class); err != nil {
			t.Fatal(err)
		}
	}
	return &site{client: client, departed: map[string][]string{}}
}

// drain takes departures until ctx ends.
func (s *site) drain(ctx context.Context) {
	var wg sync.WaitGroup
	for shard := range s.client.Shards() {
		wg.Go(func() { s.drainShard(ctx, s.client.Outlet(fmt.Sprint(rand.Uint64()), shard)) })
	}
	wg.Wait()
}

func (s *site) drainShard(ctx context.Context, outlet *queue.Outlet) {
	for ctx.Err() == nil {
		got, err := outlet.Depart(ctx, queue.Ask{Want: 64})
		if err != nil { // the server is away, or ctx has ended
			pause(ctx, 20*time.Millisecond)
			continue
		}
		verdicts := make([]queue.Verdict, len(got.Jobs))
		s.mu.Lock()
		for i, d := range got.Jobs {
			s.departed[d.Key] = append(s.departed[d.Key], d.ID)
			verdicts[i] = queue.Verdict{Ref: d.Ref, Stamp: d.Stamp, Outcome: queue.Done}
		}
		s.mu.Unlock()
		if len(verdicts) > 0 {
			_, _ = outlet.Settle(ctx, verdicts)
		}
		pause(ctx, 2*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// file writes jobs of several keys and returns its name and the ids by key, in order.
func file(t *testing.T, jobs, keys int) (name string, want map[string][]string) {
	t.Helper()
	var b strings.Builder
	want = map[string][]string{}
	for i := range jobs {
		key, id := fmt.Sprintf("k%d", i%keys), fmt.Sprintf("%06d", i)
		fmt.Fprintf(&b, `{"class":"c","key":%q,"id":%q,"type":"t","payload":{"n":%d}}`+"\n", key, id, i)
		want[key] = append(want[key], id)
	}
	name = filepath.Join(t.TempDir(), "jobs.jsonl")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name, want
}

// produce runs the whole program.
func produce(t *testing.T, address string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	getenv := func(name string) string { return map[string]string{"SPOUT_REDIS": address}[name] }
	var out, err strings.Builder
	status = run(t.Context(), append([]string{"producer"}, args...), getenv, strings.NewReader(""), &out, &err)
	return status, out.String(), err.String()
}

func (s *site) check(t *testing.T, want map[string][]string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, ids := range want {
		if got := s.departed[key]; !slices.Equal(got, ids) {
			t.Errorf("bucket %s let %d jobs go, want %d, or in another order:\n%.300v\n%.300v", key, len(got), len(ids), got, ids)
		}
	}
}

// TestBulkWait: more jobs than the buckets hold go in while the buckets are drained, in order, at the rate of the buckets.
func TestBulkWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSite(t, server.Client(t), queue.NewClass("c", 20, queue.Rate{Limit: 100, Period: time.Second}))
	name, want := file(t, 450, 3)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { s.drain(ctx) })
	start := time.Now()
	status, stdout, stderr := produce(t, server.Addr, "bulk", "-f", name)
	took := time.Since(start)
	for deadline := time.Now().Add(10 * time.Second); s.count() < 450 && time.Now().Before(deadline); {
		pause(t.Context(), 10*time.Millisecond)
	}
	stop()
	wg.Wait()
	if status != 0 || stdout != "admitted 450, duplicate 0\n" || stderr != "" {
		t.Errorf("exit status %d, %q, %q", status, stdout, stderr)
	}
	s.check(t, want)
	if took < time.Second || took > 4*time.Second { // 130 jobs of each bucket wait for 1.3 s in all
		t.Errorf("took %v", took)
	}
}

func (s *site) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, ids := range s.departed {
		n += len(ids)
	}
	return n
}

// TestBulkSurvivesRestart: Redis goes and comes back in the middle; each job is admitted once, in order.
func TestBulkSurvivesRestart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	class := queue.NewClass("c", 100_000, queue.Rate{Limit: 10_000, Period: time.Second})
	s := newSite(t, server.Client(t), class)
	name, want := file(t, 20_000, 5)
	type result struct {
		status         int
		stdout, stderr string
	}
	done := make(chan result)
	go func() {
		var r result
		r.status, r.stdout, r.stderr = produce(t, server.Addr, "bulk", "-f", name)
		done <- r
	}()
	for books := (queue.Books{}); books.Admitted < 1000; pause(t.Context(), time.Millisecond) {
		var err error
		if books, err = s.client.Books(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
	}
	server.Kill()
	pause(t.Context(), 200*time.Millisecond)
	server.Restart()
	r := <-done
	if r.status != 0 || !strings.Contains(r.stderr, "redis does not answer") {
		t.Errorf("%+v", r)
	}
	for key, ids := range want {
		var got []string
		jobs, err := s.client.Jobs(t.Context(), "c", key, false, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			got = append(got, j.ID)
		}
		if !slices.Equal(got, ids) {
			t.Errorf("bucket %s has %d jobs, want %d, or in another order", key, len(got), len(ids))
		}
	}
}

// TestRedisAsUsersRunIt: the same on a cluster, behind TLS and behind sentinels.
func TestRedisAsUsersRunIt(t *testing.T) {
	t.Parallel()
	class := queue.NewClass("c", 100, queue.Rate{Limit: 1, Period: time.Second})
	cluster := redistest.Cluster(t, 3)
	newSite(t, cluster.Client(t), class)
	secure := redistest.TLS(t)
	newSite(t, secure.Client(t), class)
	watched := redistest.Sentinel(t)
	newSite(t, watched.Client(t), class)
	for name, address := range map[string]string{
		"cluster":  "redis+cluster://" + strings.Join(cluster.Addrs(), ","),
		"tls":      secure.URL + "?cafile=" + secure.CAFile,
		"sentinel": "redis+sentinel://" + strings.Join(watched.Addrs(), ",") + "/" + watched.Name,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if status, stdout, stderr := produce(t, address, "enqueue", "--class", "c", "--key", "k", "--type", "t", "--payload", "1"); status != 0 {
				t.Errorf("exit status %d, %q, %q", status, stdout, stderr)
			}
			jobs, _ := file(t, 300, 30)
			if status, stdout, stderr := produce(t, address, "bulk", "-f", jobs); stdout != "admitted 300, duplicate 0\n" {
				t.Errorf("exit status %d, %q, %q", status, stdout, stderr)
			}
		})
	}
	t.Run("cluster node", func(t *testing.T) {
		t.Parallel()
		status, _, stderr := produce(t, cluster.Addrs()[0], "enqueue", "--class", "c", "--key", "k", "--type", "t", "--payload", "1")
		if status != 78 || !strings.Contains(stderr, "connect with redis+cluster://host:port,host:port") {
			t.Errorf("exit status %d, %q", status, stderr)
		}
	})
}
