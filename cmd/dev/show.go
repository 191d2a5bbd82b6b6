package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spout-queue/spout/queue"
)

// show prints what happens. Lines only, so that it reads the same on a terminal and in a file.
type show struct {
	out    io.Writer
	client *queue.Client
	up     *upstream
	redis  string // its address
	nats   string // its URL
	begin  time.Time
	late   sync.WaitGroup // producers that were refused and come back, and those of traffic

	dashboard string // its URL
}

func (s *show) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, format, args...) // nobody is left to tell
}

func (s *show) introduce() {
	s.printf("Spout, all in one process. Nothing here survives its exit.\n\n")
	s.printf("  dashboard %s with an HTTP API, see %sdocs\n", s.dashboard, s.dashboard)
	s.printf("  redis     %s, embedded\n", s.redis)
	s.printf("  nats      %s, embedded\n", s.nats)
	s.printf("  upstream  %s allows each tenant %d calls a second, 429 above that\n", s.up.url, limit)
	s.printf("  class     %s: capacity %d, rate %d/1s, one bucket per tenant\n\n", demoClass, capacity, limit)
}

// naive makes the calls as a program without Spout would.
func (s *show) naive(ctx context.Context) {
	var wg sync.WaitGroup
	for range perTenant {
		for _, tenant := range tenants() {
			wg.Go(func() { s.post(ctx, tenant) })
		}
	}
	wg.Wait()
	called, refused := s.up.counts()
	s.up.forget()
	s.printf("Without Spout: %d calls at once, %d done, %d answered 429.\n", perTenant*len(tenants()), called, refused)
}

func (s *show) post(ctx context.Context, tenant string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.target(tenant), bytes.NewReader([]byte("{}")))
	if err != nil {
		return
	}
	if res, err := http.DefaultClient.Do(req); err == nil {
		_ = res.Body.Close()
	}
}

func (s *show) target(tenant string) string { return s.up.url + "/" + tenant + "/messages" }

// burst submits all jobs at once. Who is refused comes back when told.
func (s *show) burst(ctx context.Context) {
	s.begin = time.Now()
	s.printf("With Spout: the same %d as jobs, at once.\n\n", perTenant*len(tenants()))
	for _, tenant := range tenants() {
		jobs := make([]queue.Job, perTenant)
		for i := range jobs {
			jobs[i] = s.job(tenant, i)
		}
		admitted, first := 0, time.Duration(-1)
		var last time.Duration
		for i, r := range s.client.SubmitMany(ctx, jobs) {
			full, refused := errors.AsType[*queue.FullError](r.Err)
			switch {
			case r.Err == nil:
				admitted++
			case refused:
				if last = full.RetryAfter; first < 0 {
					first = last
				}
				s.comeBack(ctx, jobs[i], last)
			default:
				s.printf("  %s: %v\n", tenant, r.Err)
			}
		}
		s.printf("  %s  %2d admitted, %d rejected: bucket full, come back in %v to %v\n", tenant, admitted,
			perTenant-admitted, first.Round(10*time.Millisecond), last.Round(10*time.Millisecond))
	}
	s.printf("\n  time   %s     calls   429\n", strings.Join(headings(), "  "))
}

func (s *show) comeBack(ctx context.Context, job queue.Job, after time.Duration) {
	s.late.Go(func() {
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return
		}
		if _, err := s.client.SubmitWait(ctx, job); err != nil && ctx.Err() == nil {
			s.printf("  %s: %v\n", job.Key, err)
		}
	})
}

func (s *show) job(tenant string, i int) queue.Job {
	payload, err := json.Marshal(map[string]string{"method": http.MethodPost, "url": s.target(tenant), "body": "{}"})
	if err != nil {
		panic(err) // strings always marshal
	}
	return queue.Job{Class: demoClass, Key: tenant, ID: fmt.Sprintf("burst-%02d", i+1), Payload: payload}
}

const barWidth = capacity + 3

func headings() []string {
	var h []string
	for _, tenant := range tenants() {
		h = append(h, fmt.Sprintf("%-*s", barWidth, tenant+" waits"))
	}
	return h
}

// watch prints a line twice a second while something happens.
func (s *show) watch(ctx context.Context, once bool) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	told := false
	before := ""
	for {
		line, waiting := s.line(ctx)
		if ctx.Err() != nil {
			s.late.Wait()
			return
		}
		if line != before && !told {
			s.printf("  %4.1fs  %s\n", time.Since(s.begin).Seconds(), line)
			before = line
		}
		called, refused := s.up.counts()
		if !told && waiting == 0 && called+refused >= perTenant*len(tenants()) {
			told = true
			s.conclude(called, refused)
			if once {
				return
			}
			s.traffic(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (s *show) line(ctx context.Context) (line string, waiting int) {
	var b strings.Builder
	for _, tenant := range tenants() {
		bucket, err := s.client.Buckets().Get(ctx, demoClass, tenant)
		if err != nil {
			return "", 0
		}
		waiting += bucket.Level
		bar := strings.Repeat("█", bucket.Level) + strings.Repeat("·", max(0, capacity-bucket.Level))
		fmt.Fprintf(&b, "%s %2d  ", bar, bucket.Level)
	}
	called, refused := s.up.counts()
	fmt.Fprintf(&b, "   %5d %5d", called, refused)
	return b.String(), waiting
}

func (s *show) conclude(called, refused int) {
	s.printf("\n  %d calls done in %.1f s, %d answered 429. Ctrl-C ends it, and everything in it. Until then the\n"+
		"  tenants go on, one of them too fast for its bucket. Look at %s, or around:\n",
		called, time.Since(s.begin).Seconds(), refused, s.dashboard)
	s.printf("  go run ./cmd/admin bucket ls %s --redis %s\n", demoClass, s.redis)
	s.printf("  go run ./cmd/producer enqueue --class %s --key ada --payload '{\"method\":\"POST\",\"url\":\"%s\"}' --redis %s\n",
		demoClass, s.target("ada"), s.redis)
	s.printf("  curl %sv1/jobs --json '{\"class\":\"%s\",\"key\":\"ada\",\"payload\":{\"method\":\"POST\",\"url\":\"%s\"}}'\n", s.dashboard, demoClass, s.target("ada"))
	s.printf("  nats -s %s req spout.v1.submit.%s '{\"key\":\"ada\",\"payload\":{\"method\":\"POST\",\"url\":\"%s\"}}'\n",
		s.nats, demoClass, s.target("ada"))
}
