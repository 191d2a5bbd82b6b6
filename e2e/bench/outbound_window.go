package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/spout-queue/spout/handlers"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// strictWindow is an upstream that serves so many calls in any second and answers 429 to the others.
type strictWindow struct {
	limit int

	mu             sync.Mutex
	served         []time.Time // of the last second
	calls, refused int
}

func (u *strictWindow) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(u.served) > 0 && now.Sub(u.served[0]) >= time.Second {
		u.served = u.served[1:]
	}
	u.calls++
	if len(u.served) >= u.limit {
		u.refused++
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	u.served = append(u.served, now)
}

func (u *strictWindow) counts() (calls, refused int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.calls, u.refused
}

const windowTime = 2 * time.Minute

// window: three buckets, each against an upstream of its own whose limit it is set just below, and two workers.
func window(ctx context.Context, b *bench) ([]row, error) {
	class := perSecond("window", 19) // of 20
	class.HTTP.AllowPrivate = true
	client, err := b.fresh(ctx, class)
	if err != nil {
		return nil, err
	}
	var ups [3]*strictWindow
	var jobs []queue.Job
	for i := range ups {
		ups[i] = &strictWindow{limit: 20}
		srv := httptest.NewServer(ups[i])
		defer srv.Close()
		for n := range 19*int(windowTime.Seconds()) + 100 {
			jobs = append(jobs, queue.Job{
				Class: class.Name, Key: fmt.Sprint(i), ID: fmt.Sprint(n), Payload: fmt.Appendf(nil, `{"url":%q}`, srv.URL),
			})
		}
	}
	for _, r := range client.SubmitMany(ctx, jobs) {
		if r.Err != nil {
			return nil, r.Err
		}
	}
	h := handlers.NewHTTPCall(handlers.HTTPOptions{FreshUntil: scheduler.FreshUntil})
	defer h.CloseIdleConnections()
	stop, err := drain(ctx, client, 2, h.ProcessTask)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(windowTime):
	case <-ctx.Done():
	}
	if err := stop(); err != nil {
		return nil, err
	}
	var calls, refused int
	for _, u := range ups {
		c, r := u.counts()
		calls, refused = calls+c, refused+r
	}
	return []row{{
		fmt.Sprintf("429s of a strict sliding window of 20/1s in %v, three buckets at 0.95 of it", windowTime), "0",
		fmt.Sprintf("%d of %d calls; %.2f/s of 19 per bucket", refused, calls, float64(calls)/windowTime.Seconds()/float64(len(ups))),
	}}, nil
}
