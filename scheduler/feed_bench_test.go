package scheduler

import (
	"bytes"
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/internal/redistest"
)

func BenchmarkFeed(b *testing.B) {
	for _, slots := range []int{1, 64} {
		b.Run(strconv.Itoa(slots), func(b *testing.B) {
			var left sync.WaitGroup
			r := newRig(b, redistest.MiniClient(b), feedOptions{Concurrency: slots})
			r.mustStart(b, func(context.Context, *asynq.Task) error {
				left.Done()
				return nil
			})
			payload := bytes.Repeat([]byte("x"), 256)
			b.ReportAllocs()
			for b.Loop() {
				left.Add(1)
				r.mustPut(b, task{ID: "0:abc:1", Type: "http:call", Payload: payload})
			}
			left.Wait()
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	e := newEncoder()
	defer e.close() //nolint:errcheck // never dialled
	t := task{
		ID: "0:abc:1", Type: "http:call", Payload: bytes.Repeat([]byte("x"), 256),
		Headers: map[string]string{"attempt": "1"},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.encode(b.Context(), t); err != nil {
			b.Fatal(err)
		}
	}
}
