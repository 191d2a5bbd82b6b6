package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/queue"
)

// starts collects when handlers start, and how late that is.
type starts struct {
	mu   sync.Mutex
	at   []time.Time
	late []time.Duration
}

func (s *starts) ProcessTask(_ context.Context, t *asynq.Task) error {
	now := time.Now()
	due, err := time.Parse(queue.TimeFormat, t.Headers()["Spout-Due"])
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, now)
	s.late = append(s.late, now.Sub(due))
	return nil
}

// meanRate is the rate over all starts but the first ten, which a cold worker may delay.
func (s *starts) meanRate() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.at) < 20 {
		return 0
	}
	at := s.at[10:]
	return float64(len(at)-1) / at[len(at)-1].Sub(at[0]).Seconds()
}

// observe fills some buckets, drains them for a while and returns what started when.
func (b *bench) observe(ctx context.Context, class queue.Class, keys, workers int, d time.Duration) (*starts, error) {
	client, err := b.fresh(ctx, class)
	if err != nil {
		return nil, err
	}
	perKey := int(float64(class.Rate.Limit)*d.Seconds()/class.Rate.Period.Seconds()) + 100
	batch := make([]queue.Job, 0, keys*perKey)
	for range perKey {
		for key := range keys {
			batch = append(batch, job(class.Name, key))
		}
	}
	for _, r := range client.SubmitMany(ctx, batch) {
		if r.Err != nil {
			return nil, r.Err
		}
	}
	var s starts
	stop, err := drain(ctx, client, workers, s.ProcessTask)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return &s, stop()
}

func pace(ctx context.Context, b *bench) ([]row, error) {
	var rows []row
	for _, limit := range []int64{100, 500, 1000} {
		var rates []float64
		for range 5 {
			s, err := b.observe(ctx, perSecond("pace", limit), 1, 1, b.pace)
			if err != nil {
				return nil, err
			}
			rates = append(rates, s.meanRate())
		}
		off := math.Abs(median(rates)/float64(limit)-1) * 100
		rows = append(rows, row{
			fmt.Sprintf("one bucket at %d/s, %v: mean rate, median of 5", limit, b.pace), "within 0.3 %",
			fmt.Sprintf("%s, off by %.2f %%", spanOf(rates, "%.1f"), off),
		})
	}
	return rows, nil
}

func lateness(ctx context.Context, b *bench) ([]row, error) {
	s, err := b.observe(ctx, perSecond("late", 100), 1, 1, b.pace)
	if err != nil {
		return nil, err
	}
	late := s.late[min(10, len(s.late)):]
	return []row{{"start lateness at 100/s", "p99 <= 2 ms", quantiles(late)}}, nil
}

func spread(ctx context.Context, b *bench) ([]row, error) {
	s, err := b.observe(ctx, perSecond("spread", 10), 300, 3, b.pace)
	if err != nil {
		return nil, err
	}
	late := s.late[min(600, len(s.late)):]
	return []row{{
		"300 buckets filled at once, 10/s each, 3 workers: lateness", "p99 <= 10 ms",
		quantiles(late) + fmt.Sprintf(", %d starts", len(s.at)),
	}}, nil
}

func quantiles(v []time.Duration) string {
	return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms", ms(quantile(v, 0.5)), ms(quantile(v, 0.99)))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// latency: from Submit to the handler's start while nothing else happens.
func latency(ctx context.Context, b *bench) ([]row, error) {
	client, err := b.fresh(ctx, perSecond("idle", 1000))
	if err != nil {
		return nil, err
	}
	started := make(chan time.Time, 1)
	stop, err := drain(ctx, client, 1, func(context.Context, *asynq.Task) error {
		started <- time.Now()
		return nil
	})
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for i := range 200 {
		select {
		case <-time.After(30 * time.Millisecond): // let it fall asleep
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		begin := time.Now()
		if _, err := client.Submit(ctx, job("idle", i)); err != nil {
			return nil, err
		}
		took = append(took, (<-started).Sub(begin))
	}
	return []row{{"submit to handler start in an idle system", "p99 <= 10 ms", quantiles(took[5:])}}, stop()
}

func idle(ctx context.Context, b *bench) ([]row, error) {
	client, err := b.fresh(ctx, perSecond("idle", 10))
	if err != nil {
		return nil, err
	}
	h, _ := countdown(-1)
	stop, err := drain(ctx, client, 1, h)
	if err != nil {
		return nil, err
	}
	<-time.After(3 * time.Second)
	before, err := b.calls(ctx)
	if err != nil {
		return nil, err
	}
	const span = 20 * time.Second
	<-time.After(span)
	after, err := b.calls(ctx)
	if err != nil {
		return nil, err
	}
	// A script counts its own commands too; asking a script that finds nothing is six of them.
	return []row{{
		"idle worker, 4 shards: commands/s in Redis, those inside scripts too", "<= 20 calls/s",
		fmt.Sprintf("%.1f", (after-before-1)/span.Seconds()),
	}}, stop()
}
