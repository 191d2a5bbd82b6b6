package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/cmd/internal/jobline"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

func receiptOf(id string) queue.Receipt {
	return queue.Receipt{
		Ref: "0-" + id, ID: id, Status: queue.Admitted, Position: 1, Level: 1, Capacity: 2,
		EstimatedStart: time.UnixMicro(1767225600000001).UTC(), Wait: time.Second, Ack: queue.AckMemory,
	}
}

// admits answers each submission with its receipt.
func admits(_ int, _ *http.Request, body string) (*http.Response, error) {
	job, err := jobline.Parse([]byte(body))
	if err != nil {
		return reply(http.StatusBadRequest, wire.FromProblem(err)), nil
	}
	return reply(http.StatusAccepted, wire.FromReceipt(receiptOf(job.ID))), nil
}

// TestSubmitRepeats: a lost reply is asked for again, with the id that was chosen before, and the payload goes as it is.
func TestSubmitRepeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &wires{}
		server.answer = func(n int, r *http.Request, body string) (*http.Response, error) {
			switch n {
			case 1:
				return nil, errReset
			case 2:
				return raw(http.StatusBadGateway, "text/html", "<h1>Bad Gateway</h1>"), nil
			}
			return admits(n, r, body)
		}
		receipt, err := server.client(t).Submit(t.Context(), queue.Job{
			Class: "mail", Key: "k", Payload: json.RawMessage(`{"a":"<&>"}`), MaxWait: time.Minute, Trace: "00-1-2-01",
		})
		if err != nil || receipt.ID == "" {
			t.Fatal(receipt, err)
		}
		if diff := cmp.Diff(receiptOf(receipt.ID), receipt); diff != "" {
			t.Error(diff)
		}
		want := `{"class":"mail","key":"k","id":"` + receipt.ID + `","payload":{"a":"<&>"},"max_wait":"1m"}` + "\n"
		if diff := cmp.Diff([]string{want, want, want}, server.bodies); diff != "" {
			t.Error(diff)
		}
		first := server.asked[0]
		if first.URL.Path != "/base/v1/jobs" || first.Header.Get("Authorization") != "Bearer s3cret" || first.Header.Get("Traceparent") != "00-1-2-01" {
			t.Errorf("asked %v with %v", first.URL, first.Header)
		}
	})
}

// TestSubmitLost: when no reply comes at all, the outcome is unknown and the id is told.
func TestSubmitLost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fails error
		want  error
		tries int
	}{
		{errReset, queue.ErrUnknown, 4},
		{errRefused, queue.ErrUnavailable, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := &wires{answer: func(int, *http.Request, string) (*http.Response, error) { return nil, test.fails }}
			receipt, err := server.client(t).Submit(t.Context(), queue.Job{Class: "mail", Key: "k", Payload: []byte("1")})
			if !errors.Is(err, test.want) || receipt.ID == "" || len(server.asked) != test.tries || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v: %v after %d tries; receipt %+v", test.fails, err, len(server.asked), receipt)
			}
			if known := strings.Contains(err.Error(), fmt.Sprintf("with id %q", receipt.ID)); known != errors.Is(err, queue.ErrUnknown) {
				t.Errorf("%v tells the id: %v", err, known)
			}
		})
	}
}

// TestSubmitOnce: what the server has refused is not sent again.
func TestSubmitOnce(t *testing.T) {
	t.Parallel()
	full := &queue.FullError{Reason: queue.ReasonFull, Class: "mail", Key: "k", RetryAfter: time.Second, Level: 2, Capacity: 2}
	for _, refusal := range []error{full, queue.ErrConflict, queue.ErrUnknownClass, queue.ErrTooLarge, queue.ErrDraining} {
		p := wire.FromProblem(refusal)
		server := says(p.Status, p)
		if _, err := server.client(t).Submit(t.Context(), queue.Job{Class: "mail", Key: "k", Payload: []byte("1")}); err == nil || len(server.asked) != 1 {
			t.Errorf("%v: %v after %d tries", refusal, err, len(server.asked))
		}
	}
	server := says(http.StatusOK, nil)
	for _, job := range []queue.Job{
		{Class: "mail", Key: "k"},
		{Class: "mail", Key: "k", Payload: []byte("{")},
		{Class: "mail", Key: "k", Payload: []byte("1"), Ack: queue.AckFsynced},
	} {
		if _, err := server.client(t).Submit(t.Context(), job); !errors.Is(err, queue.ErrInvalid) || len(server.asked) > 0 {
			t.Errorf("%+v: %v after %d tries", job, err, len(server.asked))
		}
	}
}

// TestRetryAfter: what a server asks for is waited for, if it is not long.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	away := wire.FromProblem(queue.ErrUnavailable)
	for told, want := range map[string]int{"1": 4, "60": 1} {
		synctest.Test(t, func(t *testing.T) {
			server := &wires{answer: func(int, *http.Request, string) (*http.Response, error) {
				answer := reply(away.Status, away)
				answer.Header.Set("Retry-After", told)
				return answer, nil
			}}
			began := time.Now()
			_, err := server.client(t).Class(t.Context(), "mail")
			if !errors.Is(err, queue.ErrUnavailable) || len(server.asked) != want {
				t.Errorf("told %s: %v after %d tries", told, err, len(server.asked))
			}
			if waited := time.Since(began); waited < time.Duration(want-1)*time.Second || waited > time.Duration(want)*time.Second {
				t.Errorf("told %s: %d tries took %v", told, want, waited)
			}
		})
	}
}

// TestChangesOnce: what may not be done twice is sent once, and a lost reply is an unknown outcome.
func TestChangesOnce(t *testing.T) {
	t.Parallel()
	server := &wires{answer: func(int, *http.Request, string) (*http.Response, error) { return nil, errReset }}
	c, ctx := server.client(t), t.Context()
	class := queue.NewClass("mail", 1, queue.Rate{Limit: 1, Period: time.Second})
	for name, do := range map[string]func() error{
		"pause":  func() error { return last(c.Pause(ctx, "mail", "k")) },
		"hold":   func() error { return last(c.HoldFor(ctx, "mail", "", time.Second)) },
		"purge":  func() error { _, err := c.Purge(ctx, "mail", "k"); return err },
		"cancel": func() error { _, err := c.Cancel(ctx, "0-x"); return err },
		"retry":  func() error { _, err := c.Retry(ctx, "0-x"); return err },
		"put":    func() error { _, err := c.PutClass(ctx, class); return err },
		"remove": func() error { _, _, err := c.RemoveClass(ctx, "mail", true); return err },
		"dead":   func() error { _, err := c.RetryDead(ctx, "mail", "", time.Time{}); return err },
	} {
		before := len(server.asked)
		if err := do(); !errors.Is(err, queue.ErrUnknown) || len(server.asked) != before+1 {
			t.Errorf("%s: %v after %d tries", name, err, len(server.asked)-before)
		}
	}
}

func jobs(n int) []queue.Job {
	list := make([]queue.Job, n)
	for i := range list {
		list[i] = queue.Job{Class: "mail", Key: "k", ID: fmt.Sprint(i), Payload: []byte("1")}
	}
	return list
}

// batch answers a batch: job 7 finds no room.
func batch(body string) (*http.Response, error) {
	var sent struct{ Jobs []json.RawMessage }
	if err := json.Unmarshal([]byte(body), &sent); err != nil {
		return nil, err
	}
	var answer wire.BatchAnswer
	for _, line := range sent.Jobs {
		job, err := jobline.Parse(line)
		result := queue.Result{Receipt: receiptOf(job.ID), Err: err}
		if job.ID == "7" {
			result = queue.Result{Err: &queue.FullError{Reason: queue.ReasonFull, RetryAfter: time.Second, Level: 2, Capacity: 2}}
		}
		answer.Results = append(answer.Results, wire.FromResult(result))
	}
	return reply(http.StatusOK, answer), nil
}

func TestSubmitMany(t *testing.T) {
	t.Parallel()
	server := &wires{answer: func(_ int, _ *http.Request, body string) (*http.Response, error) { return batch(body) }}
	list := jobs(2500)
	list[3].Payload, list[5].Payload = nil, []byte("{")
	results := server.client(t).SubmitMany(t.Context(), list)
	if len(server.asked) != 3 || len(results) != len(list) {
		t.Fatalf("%d requests, %d results", len(server.asked), len(results))
	}
	for i, r := range results {
		full, isFull := errors.AsType[*queue.FullError](r.Err)
		switch {
		case r.Receipt.ID != list[i].ID:
			t.Fatalf("job %s has the answer of %s", list[i].ID, r.Receipt.ID)
		case i == 3 || i == 5:
			if !errors.Is(r.Err, queue.ErrInvalid) {
				t.Errorf("job %d: %v", i, r.Err)
			}
		case i == 7:
			if !isFull || full.RetryAfter != time.Second || full.Level != 2 {
				t.Errorf("job 7: %v", r.Err)
			}
		case r.Err != nil:
			t.Errorf("job %d: %v", i, r.Err)
		}
	}
	if got := server.client(t).SubmitMany(t.Context(), nil); len(got) != 0 {
		t.Errorf("no jobs have %d results", len(got))
	}
}

// TestSubmitManyLarge: a request is closed before it is too large for the server.
func TestSubmitManyLarge(t *testing.T) {
	t.Parallel()
	server := &wires{answer: func(_ int, _ *http.Request, body string) (*http.Response, error) { return batch(body) }}
	list := jobs(40)
	for i := range list {
		list[i].Payload = []byte(`"` + strings.Repeat("x", 1<<20-2) + `"`)
	}
	for i, r := range server.client(t).SubmitMany(t.Context(), list) {
		if i != 7 && r.Err != nil {
			t.Error(i, r.Err)
		}
	}
	for _, body := range server.bodies {
		if len(body) > 18<<20 {
			t.Errorf("one request has %d bytes", len(body))
		}
	}
	if len(server.bodies) < 3 {
		t.Errorf("%d requests", len(server.bodies))
	}
}

// TestSubmitManyStops: behind a batch without an answer nothing is sent, so that jobs of one bucket keep their order.
func TestSubmitManyStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &wires{answer: func(n int, _ *http.Request, body string) (*http.Response, error) {
			if n == 1 {
				return batch(body)
			}
			return nil, errReset
		}}
		results := server.client(t).SubmitMany(t.Context(), jobs(2500))
		for i, want := range map[int]error{0: nil, 999: nil, 1000: queue.ErrUnknown, 1999: queue.ErrUnknown, 2000: queue.ErrUnavailable, 2499: queue.ErrUnavailable} {
			if err := results[i].Err; !errors.Is(err, want) || results[i].Receipt.ID != fmt.Sprint(i) {
				t.Errorf("job %d: %v, want %v", i, err, want)
			}
		}
		if len(server.asked) != 5 {
			t.Errorf("%d requests", len(server.asked))
		}
	})
}

func TestSubmitManyShort(t *testing.T) {
	t.Parallel()
	results := says(http.StatusOK, wire.BatchAnswer{}).client(t).SubmitMany(t.Context(), jobs(2))
	if !errors.Is(results[1].Err, queue.ErrUnknown) {
		t.Errorf("a job without an answer: %v", results[1].Err)
	}
}

// TestSubmitWait: it comes back when it is told, and less and less often where that is in vain.
func TestSubmitWait(t *testing.T) {
	t.Parallel()
	refusal := func(after time.Duration, paused bool) wire.Problem {
		return wire.FromProblem(&queue.FullError{Reason: queue.ReasonFull, RetryAfter: after, Paused: paused, Level: 2, Capacity: 2})
	}
	for name, test := range map[string]struct {
		refusals   []wire.Problem
		least, end time.Duration
	}{
		"at once":    {nil, 0, 0},
		"as told":    {[]wire.Problem{refusal(3*time.Second, false)}, 3 * time.Second, 3100 * time.Millisecond},
		"told twice": {[]wire.Problem{refusal(time.Second, false), refusal(time.Second, false)}, 2 * time.Second, 2200 * time.Millisecond},
		"paused": {
			[]wire.Problem{refusal(0, true), refusal(0, true), refusal(0, true), refusal(0, true)}, 700 * time.Millisecond, 800 * time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &wires{}
				server.answer = func(n int, r *http.Request, body string) (*http.Response, error) {
					if n <= len(test.refusals) {
						return reply(test.refusals[n-1].Status, test.refusals[n-1]), nil
					}
					return admits(n, r, body)
				}
				began := time.Now()
				_, err := server.client(t).SubmitWait(t.Context(), queue.Job{Class: "mail", Key: "k", Payload: []byte("1")})
				if took := time.Since(began); err != nil || took < test.least || took > test.end {
					t.Errorf("%v after %v", err, took)
				}
				for _, body := range server.bodies {
					if body != server.bodies[0] {
						t.Errorf("it submitted %s and then %s", server.bodies[0], body)
					}
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		p := refusal(time.Hour, false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		receipt, err := says(p.Status, p).client(t).SubmitWait(ctx, queue.Job{Class: "mail", Key: "k", Payload: []byte("1")})
		_, isFull := errors.AsType[*queue.FullError](err)
		if !isFull || !errors.Is(err, context.DeadlineExceeded) || receipt.ID == "" {
			t.Errorf("it gave up with %v, %+v", err, receipt)
		}
	})
}
