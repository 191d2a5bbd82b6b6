package console_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/console"
	"github.com/spout-queue/spout/queue"
)

// TestEnd: a server that ends answers what is under way, as if nothing were, and does not wait for those who wait.
func TestEnd(t *testing.T) {
	t.Parallel()
	client := open(t)
	if _, err := client.Classes().Put(t.Context(), queue.NewClass("c", 10, queue.Rate{Limit: 1, Period: time.Hour})); err != nil {
		t.Fatal(err)
	}
	inside, goOn := make(chan struct{}), make(chan struct{})
	at, end := serve(t, console.Options{Client: client, Authenticate: func(r *http.Request) (access.Person, error) {
		if r.Header.Get("Slow") != "" {
			inside <- struct{}{}
			<-goOn
		}
		return access.Person{Name: "ann", Role: access.Operator}, nil
	}})
	const job = `{"class":"c","key":"k","type":"none","payload":1}`
	const isJSON = "Content-Type: application/json"
	replies := make(chan reply, 3)
	ask := func(r *http.Request) {
		head, _ := do(t, r)
		replies <- head
	}
	go ask(request(t, http.MethodPost, at+"/v1/jobs?wait=60s", job, isJSON, "Slow: yes"))
	<-inside
	go ask(request(t, http.MethodPost, at+"/v1/jobs", job, isJSON, "Slow: yes"))
	<-inside
	stream, err := http.DefaultClient.Do(request(t, http.MethodGet, at+"/v1/events", "")) //nolint:bodyclose // it is, below
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close() //nolint:errcheck // it is read
	go func() {
		_, _ = io.Copy(io.Discard, stream.Body) // however it ends
		replies <- reply{StatusCode: stream.StatusCode}
	}()
	end()
	if first := <-replies; first.StatusCode != http.StatusOK {
		t.Errorf("%s came before the end of the stream", first.Status)
	}
	close(goOn)
	for range 2 {
		if head := <-replies; head.StatusCode != http.StatusAccepted {
			t.Errorf("a submission that was under way: %s", head.Status)
		}
	}
}
