package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/queue"
)

const (
	inStream  = 100_000
	subjects  = "spout.v1"
	bridgeFor = 2 * time.Minute
)

// natsSite is an embedded nats-server and the real producer.
type natsSite struct {
	*bench
	server   *server.Server
	producer string
	nc       *nats.Conn
	js       jetstream.JetStream
}

func newNATSSite(ctx context.Context, b *bench) (*natsSite, error) {
	s := &natsSite{bench: b, producer: filepath.Join(b.dir, "producer")}
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", s.producer, "./cmd/producer").CombinedOutput(); err != nil { //nolint:gosec // our own
		return nil, fmt.Errorf("build the producer: %w\n%s", err, out)
	}
	var err error
	s.server, err = server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: b.dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return nil, err
	}
	s.server.Start()
	if !s.server.ReadyForConnections(30 * time.Second) {
		return nil, errors.New("nats-server does not serve")
	}
	if s.nc, err = nats.Connect(s.server.ClientURL()); err != nil {
		return nil, err
	}
	s.js, err = jetstream.New(s.nc)
	return s, err
}

func (s *natsSite) close() {
	s.nc.Close()
	s.server.Shutdown()
	s.server.WaitForShutdown()
}

// ran is what a bridge took: the most memory that it had, in MiB, and processor time.
type ran struct {
	memory float64
	cpu    time.Duration
}

// bridge starts producer bridge; stop ends it and tells what it took.
func (s *natsSite) bridge(ctx context.Context, args ...string) (stop func() ran, err error) {
	cmd := exec.CommandContext(ctx, s.producer, append([]string{"bridge", "--nats", s.server.ClientURL()}, args...)...) //nolint:gosec // our own
	cmd.Env = append(os.Environ(), "SPOUT_REDIS=redis://"+s.rdb.Options().Addr)
	cmd.Stderr = os.Stderr
	if os.Getenv("SPOUT_BENCH_LOG") == "" {
		cmd.Stderr = nil
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() ran {
		most := peak(cmd.Process.Pid)
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		return ran{most, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	}, nil
}

// peak is the most memory that a process had resident, in MiB; 0 where nobody can tell.
func peak(pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseFloat(strings.Fields(text)[0], 64) // the kernel writes a number
			return kib / 1024
		}
	}
	return 0
}

// overNATS: requests and durable ingest against the SDK's Submit and SubmitMany.
func overNATS(ctx context.Context, b *bench) ([]row, error) {
	s, err := newNATSSite(ctx, b)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var requests []float64
	var many, few []ingest
	for range b.rounds {
		ratio, err := s.requests(ctx)
		if err != nil {
			return nil, err
		}
		requests = append(requests, ratio)
		of, err := s.durable(ctx, inStream)
		if err != nil {
			return nil, err
		}
		many = append(many, of)
		if of, err = s.durable(ctx, inStream/5); err != nil {
			return nil, err
		}
		few = append(few, of)
	}
	each := func(list []ingest, of func(ingest) float64) []float64 {
		var all []float64
		for _, i := range list {
			all = append(all, of(i))
		}
		return all
	}
	memory := func(i ingest) float64 { return i.memory }
	return []row{
		{"NATS request and reply, 32 callers, against Submit", ">= 0.5", spanOf(requests, "%.2f")},
		{"100,000 messages in the stream into 100 buckets, against SubmitMany", ">= 0.5", spanOf(each(many, func(i ingest) float64 { return i.ratio }), "%.2f")},
		{"(messages/s)", "", spanOf(each(many, func(i ingest) float64 { return i.rate }), "%.0f")},
		{"(processor time of a message, µs: the bridge's)", "", spanOf(each(many, func(i ingest) float64 { return i.bridge }), "%.1f")},
		{"(nats-server's and this program's)", "", spanOf(each(many, func(i ingest) float64 { return i.server }), "%.1f")},
		{"(Redis')", "", spanOf(each(many, func(i ingest) float64 { return i.redis }), "%.1f")},
		{"the bridge's memory for 100,000 messages, and for 20,000, MiB", "the same", fmt.Sprintf("%.0f, %.0f", median(each(many, memory)), median(each(few, memory)))},
	}, nil
}

// requests is how many submissions a second are answered over NATS, as a share of the SDK's.
func (s *natsSite) requests(ctx context.Context) (float64, error) {
	client, err := s.fresh(ctx, perSecond("noop", 10_000))
	if err != nil {
		return 0, err
	}
	direct, err := inParallel(ctx, jobs, func(ctx context.Context, i int) error {
		_, err := client.Submit(ctx, job("noop", i%buckets))
		return err
	})
	if err != nil {
		return 0, err
	}
	if _, err = s.fresh(ctx, perSecond("noop", 10_000)); err != nil {
		return 0, err
	}
	stop, err := s.bridge(ctx, "--no-stream")
	if err != nil {
		return 0, err
	}
	defer stop()
	if err := s.answers(ctx); err != nil {
		return 0, err
	}
	took, err := inParallel(ctx, jobs, func(ctx context.Context, i int) error {
		m, err := s.nc.RequestWithContext(ctx, subjects+".submit.noop", jobLine(i))
		if err == nil && m.Header.Get("Nats-Service-Error") != "" {
			err = errors.New(m.Header.Get("Nats-Service-Error"))
		}
		return err
	})
	return direct.Seconds() / took.Seconds(), err
}

func jobLine(i int) []byte {
	return fmt.Appendf(nil, `{"key":"k%d","id":"%d","type":"noop","payload":{"to":"somebody","n":1}}`, i%buckets, i)
}

// answers waits until a bridge answers.
func (s *natsSite) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bridgeFor)
	defer cancel()
	for {
		_, err := s.nc.RequestWithContext(ctx, "$SRV.PING.spout", nil)
		if !errors.Is(err, nats.ErrNoResponders) {
			return err
		}
		<-time.After(20 * time.Millisecond)
	}
}

// ingest is how the messages of the stream went into their buckets: how many a second, that as a share of SubmitMany's, the
// most memory of the bridge, in MiB, and the processor time of a message, in µs.
type ingest struct {
	ratio, rate, memory   float64
	bridge, server, redis float64
}

// durable measures the way of n messages from the stream into their buckets.
func (s *natsSite) durable(ctx context.Context, n int) (ingest, error) {
	client, err := s.fresh(ctx, perSecond("noop", 10_000))
	if err != nil {
		return ingest{}, err
	}
	direct, err := inParallel(ctx, n/100, func(ctx context.Context, i int) error { return submitMany(ctx, client, i) })
	if err != nil {
		return ingest{}, err
	}
	if client, err = s.fresh(ctx, perSecond("noop", 10_000)); err != nil {
		return ingest{}, err
	}
	if err := s.fillStream(ctx, n); err != nil {
		return ingest{}, err
	}
	server, redis := cpuTime(), s.redisCPU(ctx)
	stop, err := s.bridge(ctx)
	if err != nil {
		return ingest{}, err
	}
	took, some, err := admission(ctx, client, n)
	server, redis = cpuTime()-server, s.redisCPU(ctx)-redis
	ran := stop()
	if err != nil {
		return ingest{}, err
	}
	micros := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(n) }
	rate := float64(some) / took.Seconds()
	return ingest{rate * direct.Seconds() / float64(n), rate, ran.memory, micros(ran.cpu), micros(server), micros(redis)}, nil
}

// redisCPU is the processor time that Redis has used; 0 when it does not tell.
func (s *natsSite) redisCPU(ctx context.Context) (used time.Duration) {
	info, _ := s.rdb.Info(ctx, "cpu").Result()
	for line := range strings.Lines(info) {
		for _, name := range []string{"used_cpu_user:", "used_cpu_sys:"} {
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), name); ok {
				seconds, _ := strconv.ParseFloat(text, 64) // Redis writes a number
				used += time.Duration(seconds * float64(time.Second))
			}
		}
	}
	return used
}

// fillStream makes the stream, as a first bridge does, and fills it.
func (s *natsSite) fillStream(ctx context.Context, n int) error {
	stop, err := s.bridge(ctx)
	if err != nil {
		return err
	}
	err = s.answers(ctx)
	stop()
	if err != nil {
		return err
	}
	for i := range n {
		if _, err := s.js.PublishAsync(fmt.Sprintf("%s.jobs.noop.k%d", subjects, i%buckets), jobLine(i), jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	select {
	case <-s.js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// admission measures from when the first jobs are there until all are.
func admission(ctx context.Context, client *queue.Client, n int) (time.Duration, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, bridgeFor)
	defer cancel()
	var begin time.Time
	var first int64
	for {
		books, err := client.Books(ctx, "noop")
		if err != nil {
			return 0, 0, err
		}
		switch now := time.Now(); {
		case books.Admitted >= int64(n):
			return now.Sub(begin), books.Admitted - first, nil
		case begin.IsZero() && books.Admitted > 0:
			begin, first = now, books.Admitted
		}
		<-time.After(20 * time.Millisecond) // to ask more often would cost what is measured
	}
}
