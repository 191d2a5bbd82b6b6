package client_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spout-queue/spout/cmd/admin/client"
	"github.com/spout-queue/spout/queue"
)

// gone says something and then nothing more, until nobody reads it.
type gone struct {
	said  io.Reader
	asked *http.Request
}

func (g gone) Read(p []byte) (int, error) {
	if n, err := g.said.Read(p); err == nil {
		return n, nil
	}
	<-g.asked.Context().Done()
	return 0, g.asked.Context().Err()
}

func (gone) Close() error { return nil }

// TestQuiet: a server that is gone without a word is told from one where nothing happens; and who takes their time with an event loses nothing.
func TestQuiet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &wires{answer: func(_ int, r *http.Request, _ string) (*http.Response, error) {
			answer := raw(http.StatusOK, "text/event-stream", "")
			answer.Body = gone{strings.NewReader("event: done\ndata: {\"what\":\"done\"}\n\nevent: dead\ndata: {\"what\":\"dead\"}\n\n"), r}
			return answer, nil
		}}
		c, began := server.client(t), time.Now()
		heard := ""
		var last error
		for event, err := range c.Events(t.Context(), client.EventQuery{}) {
			if last = err; err == nil {
				heard += event.What + " "
				<-time.After(time.Hour)
			}
		}
		if took := time.Since(began); heard != "done dead " || !errors.Is(last, queue.ErrUnavailable) || took < 2*time.Hour+30*time.Second || took > 2*time.Hour+2*time.Minute {
			t.Errorf("heard %s and %v after %v", heard, last, took)
		}
		_, err := c.RetryAllDead(t.Context(), "mail", "", true, func(queue.Revival) {})
		if !errors.Is(err, queue.ErrUnknown) {
			t.Errorf("a retry without progress: %v", err)
		}
	})
}
