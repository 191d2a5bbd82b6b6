package main

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/spout-queue/spout/cmd/internal/events"
	"github.com/spout-queue/spout/cmd/internal/jobstream"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// heard is a connection that keeps what is published.
type heard struct{ lines []string }

func (h *heard) PublishMsg(m *nats.Msg) error {
	h.lines = append(h.lines, m.Subject+" "+string(m.Data))
	return nil
}

// What a worker had when it died is told by the one that takes it back.
func TestTellsOfTheDeadWorkersJobs(t *testing.T) {
	t.Parallel()
	var to heard
	told := &told{publisher: events.New(&to, jobstream.DefaultPrefix, "test")}
	crash := func(id string, state queue.State) queue.Crash {
		return queue.Crash{Class: "c", Key: "k", ID: id, Ref: "r", Attempt: 3, State: state, Error: "crash"}
	}
	scheduler.Events(told.tell).Reclaimed(queue.Reclaimed{Crashed: []queue.Crash{
		crash("waits", queue.Line), crash("dead", queue.Kept), crash("cancelled", queue.Cancelled),
	}})
	ended, end := context.WithCancel(t.Context())
	end()
	told.publisher.Run(ended) // sends what is left
	want := `spout.v1.event.c.failed {"class":"c","key":"k","id":"waits","ref":"r","attempt":3,"error":"crash"}
spout.v1.event.c.failed {"class":"c","key":"k","id":"dead","ref":"r","attempt":3,"error":"crash"}
spout.v1.event.c.dead {"class":"c","key":"k","id":"dead","ref":"r","attempt":3,"error":"crash"}
spout.v1.result.dead {"class":"c","key":"k","id":"dead","ref":"r","state":"dead","attempt":3,"error":"crash"}
spout.v1.event.c.cancelled {"class":"c","key":"k","id":"cancelled","ref":"r","attempt":3,"error":"crash"}
spout.v1.result.cancelled {"class":"c","key":"k","id":"cancelled","ref":"r","state":"cancelled","attempt":3,"error":"crash"}`
	if diff := cmp.Diff(want, strings.Join(to.lines, "\n")); diff != "" {
		t.Error(diff)
	}
}
