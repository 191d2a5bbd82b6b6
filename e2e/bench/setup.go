package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// bench is a redis-server of its own and a client to it.
type bench struct {
	plan
	server *exec.Cmd
	dir    string
	rdb    *redis.Client
}

func newBench(ctx context.Context, p plan) (*bench, error) {
	dir, err := os.MkdirTemp("", "spout-bench")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	server := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--unixsocket", socketIn(dir), "--save", "", "--dir", dir) //nolint:gosec,noctx // our own arguments; ended by close
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("start redis-server: %w; run 'make tools'", err)
	}
	b := &bench{plan: p, server: server, dir: dir, rdb: newClient(addr)}
	for i := 0; b.rdb.Ping(ctx).Err() != nil; i++ {
		if i == 500 {
			return nil, fmt.Errorf("redis-server on %s does not answer", addr)
		}
		<-time.After(10 * time.Millisecond)
	}
	return b, nil
}

// socketIn is where the redis-server of a directory listens, too: who comes by it is told from others by [bench.overhear].
func socketIn(dir string) string { return filepath.Join(dir, "redis.sock") }

func newClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: 64, MaxRetries: -1})
}

func freeAddress(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close() //nolint:errcheck // only the address was wanted
	return l.Addr().String(), nil
}

func (b *bench) close() {
	_ = b.rdb.Close()
	_ = b.server.Process.Kill()
	_ = b.server.Wait()
	_ = os.RemoveAll(b.dir)
}

// fresh empties Redis and opens it with the given classes.
func (b *bench) fresh(ctx context.Context, classes ...queue.Class) (*queue.Client, error) {
	if err := b.rdb.FlushAll(ctx).Err(); err != nil {
		return nil, err
	}
	client, err := queue.Open(ctx, b.rdb, queue.Options{Shards: b.shards})
	if err != nil {
		return nil, err
	}
	for _, class := range classes {
		if _, err := client.Classes().Put(ctx, class); err != nil {
			return nil, err
		}
	}
	return client, b.rdb.ConfigResetStat(ctx).Err()
}

// perSecond is a class of so many departures a second and key.
func perSecond(name string, limit int64) queue.Class {
	return queue.NewClass(name, 1_000_000, queue.Rate{Limit: limit, Period: time.Second})
}

// drain runs workers until stop is called.
func drain(ctx context.Context, client *queue.Client, workers int, h asynq.HandlerFunc) (stop func() error, err error) {
	return drainWith(ctx, client, workers, h, scheduler.Options{Concurrency: slots})
}

// drainWith is drain with options of the workers.
func drainWith(
	ctx context.Context, client *queue.Client, workers int, h asynq.HandlerFunc, o scheduler.Options,
) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, workers)
	for range workers {
		s, err := scheduler.New(client, h, o)
		if err != nil {
			cancel()
			return nil, err
		}
		go func() { ended <- s.Run(ctx) }()
	}
	return func() error {
		cancel()
		var failed error
		for range workers {
			if err := <-ended; err != nil {
				failed = err
			}
		}
		return failed
	}, nil
}

// redisMicros is the time Redis spent in commands since the last reset, without what only this program asks.
func (b *bench) redisMicros(ctx context.Context) (float64, error) {
	info, err := b.rdb.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	var sum, inScripts float64
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || !strings.HasPrefix(name, "cmdstat_") {
			continue
		}
		usec := field(rest, "usec")
		switch name {
		case "cmdstat_evalsha", "cmdstat_eval":
			inScripts += usec // holds what its commands took
		case "cmdstat_publish", "cmdstat_info", "cmdstat_config|resetstat":
		default:
			sum += usec
		}
	}
	if inScripts > 0 {
		return inScripts, nil
	}
	return sum, nil
}

// calls is how many commands clients sent since the last reset, a script as one.
func (b *bench) calls(ctx context.Context) (float64, error) {
	info, err := b.rdb.Info(ctx, "stats").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "total_commands_processed:"); ok {
			return strconv.ParseFloat(n, 64)
		}
	}
	return 0, fmt.Errorf("INFO stats has no total_commands_processed")
}

func field(list, name string) float64 {
	for pair := range strings.SplitSeq(list, ",") {
		if v, ok := strings.CutPrefix(pair, name+"="); ok {
			if f, err := strconv.ParseFloat(v, 64); err == nil {
				return f
			}
		}
	}
	return 0
}

func median[T float64 | time.Duration](v []T) T { return quantile(v, 0.5) }

func quantile[T float64 | time.Duration](v []T, q float64) T {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[min(len(v)-1, int(q*float64(len(v))))]
}

// spanOf prints the median and, behind it, the least and the most.
func spanOf(v []float64, format string) string {
	return fmt.Sprintf(format+" ("+format+" to "+format+")", median(v), slices.Min(v), slices.Max(v))
}
