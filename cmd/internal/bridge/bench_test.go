package bridge_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/queue"
)

// BenchmarkDurable is the time of one message from the stream into its bucket, with both servers and the bridge on this machine.
func BenchmarkDurable(b *testing.B) {
	s := newSite(b, quick())
	_, stop := s.bridge()
	stop()
	for i := range b.N {
		if _, err := s.js.PublishAsync(s.config.Subjects.Jobs("calls", fmt.Sprint("k", i%100)), benchLine(i), jetstream.WithStallWait(time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
	<-s.js.PublishAsyncComplete()
	b.ResetTimer()
	s.bridge()
	until(b, "all are admitted", func() bool {
		books, err := s.client.Books(b.Context(), "calls")
		return err == nil && books.Admitted == int64(b.N)
	})
}

// BenchmarkRequest is the time of one request, of 32 callers.
func BenchmarkRequest(b *testing.B) {
	s := newSite(b, quick())
	s.bridge()
	subject := s.config.Subjects.Submit("calls")
	until(b, "the bridge answers", func() bool {
		_, err := s.nc.RequestWithContext(b.Context(), subject, benchLine(0))
		return err == nil
	})
	b.ResetTimer()
	callers(b, func(ctx context.Context, i int) error {
		_, err := s.nc.RequestWithContext(ctx, subject, benchLine(i+1))
		return err
	})
}

// BenchmarkSubmit is what BenchmarkRequest is measured against.
func BenchmarkSubmit(b *testing.B) {
	s := newSite(b, quick())
	b.ResetTimer()
	callers(b, func(ctx context.Context, i int) error {
		_, err := s.client.Submit(ctx, queue.Job{Class: "calls", Key: fmt.Sprint("k", i%100), ID: fmt.Sprint(i), Payload: []byte(`{"n":1}`)})
		return err
	})
}

func quick() queue.Class {
	return queue.NewClass("calls", 1_000_000, queue.Rate{Limit: 10_000, Period: time.Second})
}

func benchLine(i int) []byte {
	return fmt.Appendf(nil, `{"key":"k%d","id":"%d","payload":{"n":1}}`, i%100, i)
}

func callers(b *testing.B, do func(context.Context, int) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= b.N; i = int(next.Add(1)) {
				if err := do(b.Context(), i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
