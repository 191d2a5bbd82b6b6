package console_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/console"
)

// TestStreamEndsWithItsReader: a stream goes on as long as its reader is who it was, and ends when they log out, have another role, or cannot be told.
func TestStreamEndsWithItsReader(t *testing.T) {
	t.Parallel()
	for path, then := range map[string]func() (access.Person, error){
		"/live?view=overview": func() (access.Person, error) { return access.Person{}, access.ErrAnonymous },
		"/live?view=workers":  func() (access.Person, error) { panic("no reader") },
		"/v1/events": func() (access.Person, error) {
			return access.Person{Name: "ann", Role: access.Viewer, Classes: []string{"hers"}}, nil
		},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			var gone atomic.Bool
			asked := make(chan struct{}, 100)
			at := start(t, console.Options{Authenticate: func(*http.Request) (access.Person, error) {
				asked <- struct{}{}
				if gone.Load() {
					return then()
				}
				return access.Person{Name: "ann", Role: access.Viewer}, nil
			}})
			resp, err := http.DefaultClient.Do(request(t, http.MethodGet, at+path, "", "Accept: text/event-stream")) //nolint:bodyclose // it is, below
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close() //nolint:errcheck // it is read
			if resp.StatusCode != http.StatusOK {
				t.Fatal(resp.Status)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = io.Copy(io.Discard, resp.Body) // however it ends
			}()
			for range 2 { // as it begins, and once more
				<-asked
			}
			select {
			case <-ended:
				t.Fatal("it ended although nothing changed")
			default:
			}
			gone.Store(true)
			select {
			case <-ended:
			case <-time.After(30 * time.Second):
				t.Error("it goes on")
			}
		})
	}
}
