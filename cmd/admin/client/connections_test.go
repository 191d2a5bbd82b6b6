package client_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/client"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// TestConnections: one connection serves many calls, however the answers are cut.
func TestConnections(t *testing.T) {
	t.Parallel()
	var list wire.Page[wire.ClassState]
	for i := range 1000 {
		list.Items = append(list.Items, wire.ClassState{Class: wire.FromClass(queue.NewClass(fmt.Sprint("class-", i), 1, queue.Rate{Limit: 1, Period: time.Second}))})
	}
	body, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
		_ = http.NewResponseController(w).Flush() // what ends the answer comes later
		_, _ = w.Write([]byte("\n"))
	}))
	server.Config.ConnState = func(_ net.Conn, is http.ConnState) {
		if is == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	own := &http.Transport{}
	defer own.CloseIdleConnections()
	c, err := client.New(server.URL, client.Options{HTTPClient: &http.Client{Transport: own}})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if classes, err := c.Classes(t.Context()); err != nil || len(classes) != 1000 {
			t.Fatalf("%d classes: %v", len(classes), err)
		}
	}
	if opened.Load() != 1 {
		t.Errorf("%d connections", opened.Load())
	}
}
