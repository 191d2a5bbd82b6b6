package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/handlers"
)

func ExampleMux() {
	mux := handlers.NewMux()
	mux.Handle(handlers.HTTPCallType, handlers.NewHTTPCall(handlers.HTTPOptions{}))
	mux.HandleFunc("mail:welcome", func(_ context.Context, task *asynq.Task) error {
		fmt.Printf("bucket %s/%s: %s\n", task.Headers()["Spout-Class"], task.Headers()["Spout-Key"], task.Payload())
		return nil
	})

	// The scheduler makes the tasks; here we do.
	task := asynq.NewTaskWithHeaders("mail:welcome", []byte(`{"to":"ann"}`), map[string]string{
		"Spout-Class": "mail", "Spout-Key": "tenant-7",
	})
	fmt.Println(mux.ProcessTask(context.Background(), task))
	fmt.Println(mux.ProcessTask(context.Background(), asynq.NewTask("mail:welcom", nil)))
	// Output:
	// bucket mail/tenant-7: {"to":"ann"}
	// <nil>
	// no handler for type "mail:welcom"; this worker handles "http:call", "mail:welcome"
}

func ExampleRetryAfterError() {
	busy := errors.New("the service is busy")
	var err error = &handlers.RetryAfterError{Err: busy, After: 30 * time.Second}
	fmt.Println(err, errors.Is(err, busy))
	// Output:
	// the service is busy; retry after 30s true
}

func ExampleNewHTTPCall() {
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("%s %s: %s\n", r.Method, r.URL.Path, body)
	}))
	defer upstream.Close()

	call := handlers.NewHTTPCall(handlers.HTTPOptions{})
	defer call.CloseIdleConnections()

	payload := []byte(`{"method":"POST","url":"` + upstream.URL + `/orders","body":"{\"id\":7}"}`)
	err := call.ProcessTask(context.Background(), asynq.NewTaskWithHeaders(handlers.HTTPCallType, payload, map[string]string{
		"Spout-Class": "shop",
		"Spout-Http":  `{"allow_private":true}`, // the upstream of this example is on loopback
	}))
	fmt.Println(err)
	// Output:
	// POST /orders: {"id":7}
	// <nil>
}
