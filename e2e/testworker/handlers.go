package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/handlers"
)

// fuse is how long a poison works before it ends the process: what departed with it should have ended by then.
const fuse = 300 * time.Millisecond

func newMux() *handlers.Mux {
	mux := handlers.NewMux()
	mux.HandleFunc("ok:call", call)
	mux.HandleFunc("poison:panic", func(context.Context, *asynq.Task) error { panic("poison") })
	mux.HandleFunc("poison:exit", func(context.Context, *asynq.Task) error {
		<-time.After(fuse)
		os.Exit(2)
		return nil
	})
	mux.HandleFunc("poison:goroutine", func(context.Context, *asynq.Task) error {
		<-time.After(fuse)
		go func() { panic("poison in a goroutine") }()
		return sleepForEver()
	})
	mux.HandleFunc("say", say)
	mux.HandleFunc("poison:loop", func(context.Context, *asynq.Task) error { return sleepForEver() })
	return mux
}

// sleepForEver is an endless loop that ignores its context. It is easy on the processor: other tests measure times on it.
func sleepForEver() error {
	for {
		<-time.After(time.Minute)
	}
}

// client keeps all its connections, as http:call does: a connection tells the tests which worker made a call.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}} //nolint:gochecknoglobals // shared by all calls

// call makes the call that http:call would make. Where the service answers 202 it does not return: a deaf handler.
func call(ctx context.Context, t *asynq.Task) error {
	var payload struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(t.Payload(), &payload); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, payload.URL, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	switch resp.StatusCode {
	case http.StatusAccepted:
		return sleepForEver()
	case http.StatusOK:
		return nil
	default:
		return fmt.Errorf("the service answered %s", resp.Status)
	}
}

// said is what a job of the type say has its handler say.
type said struct {
	Error  string `json:"error"`
	Result string `json:"result"`
	Hold   string `json:"hold"`
}

// say fails with a text, writes one as its result, or asks for a hold of an hour and says why.
func say(_ context.Context, t *asynq.Task) error {
	var s said
	if err := json.Unmarshal(t.Payload(), &s); err != nil {
		return err
	}
	switch {
	case s.Hold != "":
		return holdError(s.Hold)
	case s.Error != "":
		return errors.New(s.Error)
	}
	_, err := t.ResultWriter().Write([]byte(s.Result))
	return err
}

// holdError asks for a hold of the bucket.
type holdError string

func (e holdError) Error() string { return string(e) }

// Hold is what the scheduler asks for.
func (e holdError) Hold() (d time.Duration, class bool) { return time.Hour, false }
