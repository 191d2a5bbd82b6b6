package natstest_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/internal/natstest"
)

// What was stored survives a restart, at the same address.
func TestRestart(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	nc := server.Client(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	url := server.URL
	server.Restart()
	if server.URL != url {
		t.Fatalf("it was at %s and is at %s", url, server.URL)
	}
	natstest.Await(t, nc)
	stream, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.GetLastMsgForSubject(t.Context(), "s"); err != nil || string(m.Data) != "kept" {
		t.Errorf("got %v, %v", m, err)
	}
}
