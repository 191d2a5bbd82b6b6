package bridge_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/spout-queue/spout/cmd/internal/bridge"
)

// Of many who ask at the same time each gets an answer of its own, and no more are admitted than there is room for.
func TestManyRequests(t *testing.T) {
	t.Parallel()
	s := newSite(t, class("calls", 10))
	s.bridge()
	s.answering()
	const asked = 400
	var admitted, full atomic.Int64
	var all sync.WaitGroup
	for i := range asked {
		all.Go(func() {
			reply, err := s.nc.Request(s.config.Subjects.Submit("calls"), fmt.Appendf(nil, `{"key":"k","id":"%d","payload":1}`, i), 30*time.Second)
			switch {
			case err != nil:
				t.Error(err)
			case reply.Header.Get(micro.ErrorCodeHeader) == "429":
				full.Add(1)
			case strings.Contains(string(reply.Data), fmt.Sprintf(`"id":"%d","status":"admitted"`, i)):
				admitted.Add(1)
			default:
				t.Errorf("%d: %v %s", i, reply.Header, reply.Data)
			}
		})
	}
	all.Wait()
	if admitted.Load() != 10 || full.Load() != asked-10 {
		t.Errorf("%d were admitted, %d were told that it is full", admitted.Load(), full.Load())
	}
}

// A bridge that stops answers what it has taken.
func TestStopAnswers(t *testing.T) {
	t.Parallel()
	s := newSite(t, class("calls", 10))
	_, stop := s.bridge(func(o *bridge.Options) { o.Durable = false })
	s.answering()
	if err := s.client.Redis().Do(t.Context(), "client", "pause", 1000).Err(); err != nil {
		t.Fatal(err)
	}
	inbox := s.nc.NewInbox()
	replies, err := s.nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	const asked = 20
	for i := range asked {
		if err := s.nc.PublishRequest(s.config.Subjects.Submit("calls"), inbox, fmt.Appendf(nil, `{"key":"k%d","payload":1}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	stop()
	for range asked {
		var reply *nats.Msg
		if reply, err = replies.NextMsg(10 * time.Second); err != nil || reply.Header != nil {
			t.Fatalf("got %v, %v", reply, err)
		}
	}
}
