package handlers_test

import (
	"net/http"
	"testing"

	"github.com/spout-queue/spout/handlers"
)

func TestObserveMayAddHeaders(t *testing.T) {
	t.Parallel()
	srv := newService(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Traceparent") != "00-a-b-01" {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	var statuses []int
	var failed []error
	call := newCall(t, handlers.HTTPOptions{Observe: func(r *http.Request) func(*http.Response, error) {
		r.Header.Set("Traceparent", "00-a-b-01")
		return func(resp *http.Response, err error) {
			if err != nil {
				failed = append(failed, err)
				return
			}
			statuses = append(statuses, resp.StatusCode)
		}
	}})
	if err := call.ProcessTask(t.Context(), task(t, object{"url": srv.URL})); err != nil {
		t.Errorf("got %v, want done: the header should have been there", err)
	}
	srv.Close()
	if err := call.ProcessTask(t.Context(), task(t, object{"url": srv.URL})); err == nil {
		t.Error("a service that is gone answered")
	}
	if len(statuses) != 1 || statuses[0] != 200 || len(failed) != 1 {
		t.Errorf("told of the statuses %v and the errors %v, want 200 and one error", statuses, failed)
	}
}
