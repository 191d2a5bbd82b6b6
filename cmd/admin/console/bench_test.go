package console_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/console"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// measure adds how many jobs go with one call of Redis.
func measure(b *testing.B, client *queue.Client) (report func()) {
	b.Helper()
	calls := func() int64 {
		for line := range strings.Lines(client.Redis().Info(b.Context(), "commandstats").Val()) {
			if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
				count, _, _ := strings.Cut(rest, ",")
				n, _ := strconv.ParseInt(count, 10, 64)
				return n
			}
		}
		return 0
	}
	began := calls()
	return func() {
		b.ReportMetric(float64(b.N)/float64(max(1, calls()-began)), "jobs/call")
	}
}

// BenchmarkSubmit is one submission at a time by each of 32 callers: with the SDK, and through the API over connections that stay
// open, with a client that does next to nothing.
func BenchmarkSubmit(b *testing.B) {
	client, err := queue.Open(b.Context(), redistest.Start(b).Client(b), queue.Options{Shards: 1})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := client.Classes().Put(b.Context(), queue.NewClass("noop", 1_000_000, queue.Rate{Limit: 10_000, Period: time.Second})); err != nil {
		b.Fatal(err)
	}
	var next atomic.Int64
	b.Run("sdk", func(b *testing.B) {
		b.SetParallelism(16)
		defer measure(b, client)()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, err := client.Submit(b.Context(), queue.Job{Class: "noop", Key: fmt.Sprint("k", next.Add(1)%100), Type: "noop", Payload: []byte(`{"n":1}`)})
				if err != nil {
					b.Error(err)
				}
			}
		})
	})
	c, err := console.New(console.Options{
		Client: client, Log: slog.New(slog.DiscardHandler),
		Authenticate: func(*http.Request) (access.Person, error) {
			return access.Person{Name: "bench", Role: access.Operator}, nil
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(c)
	defer server.Close()
	addr := strings.TrimPrefix(server.URL, "http://")
	b.Run("http", func(b *testing.B) {
		b.SetParallelism(16)
		defer measure(b, client)()
		b.RunParallel(func(pb *testing.PB) {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close() //nolint:errcheck // nothing to lose
			in := bufio.NewReader(conn)
			for pb.Next() {
				body := fmt.Sprintf(`{"class":"noop","key":"k%d","type":"noop","payload":{"n":1}}`, next.Add(1)%100)
				_, _ = fmt.Fprintf(conn, "POST /v1/jobs HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", addr, len(body), body)
				answer, err := http.ReadResponse(in, nil)
				if err != nil {
					b.Error(err)
					return
				}
				said, err := io.ReadAll(answer.Body)
				if err != nil || answer.StatusCode != http.StatusAccepted {
					b.Errorf("%s %s %v", answer.Status, said, err)
				}
				_ = answer.Body.Close()
			}
		})
	})
}
