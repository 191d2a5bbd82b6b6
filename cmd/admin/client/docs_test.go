package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/client"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// retryIn stands for what a program does that is told to come back.
func retryIn(d time.Duration) error {
	return fmt.Errorf("come back in %v", d.Round(time.Second))
}

// run is the code of docs/client.md, with another address.
func run(ctx context.Context, address, token string, payload []byte) (queue.Ending, error) {
	ending := queue.Ending{}
	err := func() error {
		c, err := client.New(address, client.Options{Token: token})
		if err != nil {
			return err
		}
		receipt, err := c.Submit(ctx, queue.Job{Class: "github-api", Key: "tenant-42", Payload: payload})
		if full, ok := errors.AsType[*queue.FullError](err); ok {
			return retryIn(full.RetryAfter) // or let c.SubmitWait do the waiting
		} else if err != nil {
			return err
		}
		ending, err = c.Await(ctx, receipt.Ref)
		return err
	}()
	return ending, err
}

// What docs/client.md shows runs, is told to come back, and gets its end.
func TestDocs(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../../docs/client.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("docs_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(docs), "```go\n")
	shown, _, _ = strings.Cut(shown, "```")
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	runs := strings.Replace(words(string(code)), "client.New(address,", `client.New("https://ops.example.com:8443",`, 1)
	if shown == "" || !strings.Contains(runs, words(shown)) {
		t.Errorf("docs/client.md shows what does not run here:\n%s", shown)
	}

	s := newSite(t, redistest.Start(t).Client(t))
	server := httptest.NewServer(handlerOf(s.direct))
	t.Cleanup(server.Close)
	address := server.URL + "/spout"
	class := queue.NewClass("github-api", 1, queue.Rate{Limit: 1, Period: time.Hour})
	class.Retention = time.Hour
	_, err = s.direct.Classes().Put(t.Context(), class)
	s.check(err)
	ended := make(chan queue.Ending)
	go func() {
		ending, err := run(t.Context(), address, "", []byte("1"))
		if err != nil {
			t.Errorf("submit and wait: %v", err)
		}
		ended <- ending
	}()
	for {
		jobs, err := s.direct.Jobs(t.Context(), "github-api", "tenant-42", false, 1)
		s.check(err)
		if len(jobs) == 0 {
			continue
		}
		if _, err := run(t.Context(), address, "", []byte("2")); err == nil || !strings.HasPrefix(err.Error(), "come back in ") {
			t.Errorf("with a full bucket: %v", err)
		}
		_, err = s.direct.Cancel(t.Context(), jobs[0].Ref)
		s.check(err)
		break
	}
	if ending := <-ended; ending.State != queue.Cancelled {
		t.Errorf("it ended %+v", ending)
	}
}
