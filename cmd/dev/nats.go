package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/cmd/internal/bridge"
	"github.com/spout-queue/spout/cmd/internal/events"
	"github.com/spout-queue/spout/cmd/internal/jobstream"
	"github.com/spout-queue/spout/cmd/internal/natsconn"
	"github.com/spout-queue/spout/queue"
)

// broker is a nats-server in this process, with JetStream in a directory that goes with it.
type broker struct {
	server *server.Server
	dir    string
}

func startNATS() (*broker, error) {
	dir, err := os.MkdirTemp("", "spout-dev")
	if err != nil {
		return nil, err
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the embedded nats-server: %w", err), os.RemoveAll(dir))
	}
	b := &broker{s, dir}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		b.close()
		return nil, errors.New("start the embedded nats-server: it does not serve")
	}
	return b, nil
}

func (b *broker) url() string { return b.server.ClientURL() }

func (b *broker) close() {
	b.server.Shutdown()
	b.server.WaitForShutdown()
	_ = os.RemoveAll(b.dir) // the system clears it in time
}

// startBridge carries jobs from NATS until ctx ends; the returned function waits for that.
func startBridge(ctx context.Context, client *queue.Client, url string) (wait func() error, err error) {
	log := slog.New(slog.DiscardHandler)
	conn, err := natsconn.Connect(ctx, natsconn.Options{URL: url, Name: "spout-dev", Log: log})
	if err != nil {
		return nil, err
	}
	stream := jobstream.Default()
	b, err := bridge.New(ctx, bridge.Options{
		NATS: conn, Queue: client, Stream: stream, Requests: true, Durable: true, RequestTime: 4 * time.Second,
		Events: events.New(conn, stream.Subjects, "spout/dev"), Log: log,
	})
	if err != nil {
		conn.Close()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	return func() error { return <-ended }, nil
}

// waiting tells how many messages wait in the stream of jobs.
func (b *broker) waiting(ctx context.Context) (uint64, error) {
	conn, err := nats.Connect("", nats.InProcessServer(b.server))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return 0, err
	}
	return jobstream.Waiting(ctx, js, jobstream.DefaultName)
}
