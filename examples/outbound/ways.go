package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

func ways() []way {
	return []way{
		{"naive, 50 at a time", naive},
		{"client limiter, 1 process", func(ctx context.Context, t task) error { return limited(ctx, t, 1) }},
		{"client limiter, 2 processes", func(ctx context.Context, t task) error { return limited(ctx, t, 2) }},
		{"Spout, 2 workers", spout},
	}
}

// naive calls as fast as it may with 50 connections, and repeats what is refused when the API said so.
func naive(ctx context.Context, t task) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(50)
	for n := range t.each() {
		for tenant := range t.Tenants {
			group.Go(func() error { return insist(ctx, t.address(tenant, n)) })
		}
	}
	return group.Wait()
}

// limited is a careful program: for each tenant one call after the other, no faster than 0.95 of the limit. A second
// process of it does the same with the other half of the calls, and knows nothing of the first.
func limited(ctx context.Context, t task, processes int) error {
	group, ctx := errgroup.WithContext(ctx)
	interval := t.limit.interval()
	for process := range processes {
		for tenant := range t.Tenants {
			limiter := rate.NewLimiter(rate.Every(interval), 1)
			group.Go(func() error {
				for n := process; n < t.each(); n += processes {
					if err := limiter.Wait(ctx); err != nil {
						return err
					}
					if err := insist(ctx, t.address(tenant, n)); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	return group.Wait()
}

// interval between two calls of a tenant, at 0.95 of the limit.
func (l limit) interval() time.Duration {
	return time.Duration(float64(l.window) / float64(l.calls) / 0.95).Round(time.Microsecond)
}

// insist calls until it is answered well, and waits as long as it is told to.
func insist(ctx context.Context, url string) error {
	for {
		wait, err := get(ctx, url)
		if err != nil || wait == 0 {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func get(ctx context.Context, url string) (wait time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return 0, nil
	case http.StatusTooManyRequests:
		seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		return time.Duration(seconds) * time.Second, err
	}
	return 0, fmt.Errorf("%s: %s", url, resp.Status)
}
