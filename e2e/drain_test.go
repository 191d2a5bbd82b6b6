package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

const (
	buckets = 20
	slowest = 3  // departures a second of the slowest bucket; each next one has one more
	lasts   = 20 // seconds that the buckets need to drain
)

// TestDrain is the main job, end to end: buckets of different rates, workers that come and go, and a service that sees every
// call in order, at pace, once.
func TestDrain(t *testing.T) {
	server := redistest.Start(t)
	p := program{t, "redis://" + server.Addr}
	up := newUpstream(t, nil)
	total := fill(t, p, up)

	first := p.worker()
	p.worker()
	p.worker()
	up.await(t, total/3)
	first.stop()
	up.await(t, total/2)
	p.worker()
	up.await(t, total)
	check(t, p, up, total, server.Client(t))
}

// TestDrainCluster is the same on three masters with two workers.
func TestDrainCluster(t *testing.T) {
	cluster := redistest.Cluster(t, 3)
	p := program{t, "redis+cluster://" + strings.Join(cluster.Addrs(), ",")}
	up := newUpstream(t, nil)
	total := fill(t, p, up)

	first := p.worker()
	p.worker()
	up.await(t, total/3)
	first.stop()
	p.worker()
	up.await(t, total)
	check(t, p, up, total, cluster.Client(t))
}

// fill applies a class per rate and submits jobs for all buckets, mixed, with producer bulk. It returns how many.
func fill(t *testing.T, p program, up *upstream) int {
	t.Helper()
	var classes, jobs strings.Builder
	classes.WriteString("classes:\n")
	total := 0
	for i := range buckets {
		fmt.Fprintf(&classes, "  c%02d:\n    capacity: 1000\n    rate: %d/1s\n    http: {allow_private: true}\n", i, slowest+i)
		total += (slowest + i) * lasts
	}
	left := total
	for n := 0; left > 0; n++ {
		for i := range buckets {
			if n >= (slowest+i)*lasts {
				continue
			}
			payload := map[string]string{"method": "GET", "url": fmt.Sprintf("%s/?bucket=c%02d&n=%d", up.URL, i, n)}
			line, err := json.Marshal(map[string]any{"class": fmt.Sprintf("c%02d", i), "key": "日本 {x}/../y", "id": fmt.Sprint(n), "payload": payload})
			if err != nil {
				t.Fatal(err)
			}
			jobs.Write(line)
			jobs.WriteByte('\n')
			left--
		}
	}
	p.run("admin", "class", "apply", "-f", write(t, "classes.yaml", classes.String()))
	p.run("producer", "bulk", "-f", write(t, "jobs.jsonl", jobs.String()))
	return total
}

func check(t *testing.T, p program, up *upstream, total int, rdb redis.UniversalClient) {
	t.Helper()
	client, err := queue.Open(t.Context(), rdb, queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := up.count(); n != total {
		t.Errorf("%d calls came for %d jobs", n, total)
	}
	for i := range buckets {
		class, n := fmt.Sprintf("c%02d", i), (slowest+i)*lasts
		books, err := client.Books(t.Context(), class)
		if err != nil {
			t.Fatal(err)
		}
		if books.Admitted != int64(n) || books.Dead != 0 || books.Waiting() != 0 {
			t.Errorf("books of %s after %d jobs: %+v", class, n, books)
		}
		up.checkTimes(t, class, n, 1)
		up.checkPace(t, class, time.Second/time.Duration(slowest+i))
		up.checkOrder(t, []string{class}, int(books.Returned))
	}
	for i := range buckets {
		if dead := p.run("admin", "job", "ls", fmt.Sprintf("c%02d", i), "--state", "dead", "-o", "json"); dead != "" {
			t.Errorf("dead jobs:\n%s", dead)
		}
	}
}
