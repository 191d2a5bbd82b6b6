package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/client"
	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

func TestNew(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		address string
		o       client.Options
		refuses string
	}{
		{"http://127.0.0.1:8080", client.Options{Token: "t"}, ""},
		{"http://localhost", client.Options{Token: "t"}, ""},
		{"http://[::1]:8080/base/", client.Options{Token: "t"}, ""},
		{"https://spout.example.com/base", client.Options{Token: "t"}, ""},
		{"http://spout.example.com", client.Options{}, ""},
		{"http://spout.example.com", client.Options{Token: "t", PlainHTTP: true}, ""},
		{"http://spout.example.com:8080", client.Options{Token: "t"}, "the token would go to spout.example.com:8080 in the clear"},
		{"http://127.0.0.1.example.com", client.Options{Token: "t"}, "in the clear"},
		{"127.0.0.1:8080", client.Options{}, "address of the API: "},
		{"spout.example.com", client.Options{}, "is not http://host or https://host"},
		{"redis://127.0.0.1", client.Options{}, "is not http://host"},
		{"http://", client.Options{}, "is not http://host"},
		{"", client.Options{}, "is not http://host"},
		{"http://ann:s3cret@127.0.0.1", client.Options{}, "a name and password in it are not used"},
		{"http://127.0.0.1/?x=1", client.Options{}, "goes on behind the path"},
		{"http://127.0.0.1/#x", client.Options{}, "goes on behind the path"},
		{"http://127.0.0.1", client.Options{Token: "a\nHost: b"}, "characters that no token has"},
	} {
		_, err := client.New(test.address, test.o)
		switch {
		case test.refuses == "" && err != nil:
			t.Errorf("%s: %v", test.address, err)
		case test.refuses != "" && (err == nil || !strings.Contains(err.Error(), test.refuses) || strings.Contains(err.Error(), "s3cret")):
			t.Errorf("%s: %v, want %q", test.address, err, test.refuses)
		}
	}
}

// TestErrors: the errors are those of the SDK, and say what the server said.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, known := range []error{
		queue.ErrInvalid, queue.ErrTooLarge, queue.ErrUnknownClass, queue.ErrDraining, queue.ErrConflict, queue.ErrNotFound, access.ErrDenied,
	} {
		p := wire.FromProblem(fmt.Errorf("%w: this one", known))
		_, err := says(p.Status, p).client(t).Class(t.Context(), "mail")
		answered, ok := errors.AsType[*client.Error](err)
		if !errors.Is(err, known) || !ok || answered.Status != p.Status || answered.Reason() != p.Reason || err.Error() != p.Detail {
			t.Errorf("%v came as %v", known, err)
		}
	}
	full := &queue.FullError{Reason: queue.ReasonClassFull, Class: "mail", Key: "k", RetryAfter: 1500 * time.Millisecond, Level: 1, Capacity: 2}
	p := wire.FromProblem(full)
	_, err := says(p.Status, p).client(t).Retry(t.Context(), "0-x")
	got, ok := errors.AsType[*queue.FullError](err)
	if !ok || got.RetryAfter != full.RetryAfter || got.Reason != full.Reason || got.Class != "mail" || err.Error() != full.Error() {
		t.Errorf("%v came as %v", full, err)
	}
	busy := &queue.BusyError{Class: "mail", Waiting: 1, Out: 2, Dead: 3}
	p = wire.FromProblem(busy)
	p.Done = &wire.Done{Waiting: 4, Dead: 5}
	waiting, dead, err := says(p.Status, p).client(t).RemoveClass(t.Context(), "mail", true)
	if still, ok := errors.AsType[*queue.BusyError](err); !ok || cmp.Diff(busy, still) != "" || waiting != 4 || dead != 5 {
		t.Errorf("removed %d and %d: %v", waiting, dead, err)
	}
}

// TestExits: a command ends with the status of what the server said, and with that for a fault of its own where the server has one.
func TestExits(t *testing.T) {
	t.Parallel()
	for reason, want := range map[queue.Reason]struct {
		status, exit int
		is           error
	}{
		wire.ReasonUnauthenticated: {401, exit.Denied, access.ErrDenied}, wire.ReasonDenied: {403, exit.Denied, access.ErrDenied},
		answer.ReasonTooManyWrong: {429, exit.Denied, access.ErrDenied}, answer.ReasonCrossSite: {403, exit.Denied, access.ErrDenied},
		answer.ReasonWrongHost: {421, exit.Unavailable, queue.ErrUnavailable}, wire.ReasonUnconfirmed: {428, exit.TryLater, nil},
		answer.ReasonNotAllowed: {405, exit.Config, nil}, "internal": {500, exit.Broken, nil},
	} {
		_, err := says(want.status, wire.Problem{Reason: reason, Detail: "no"}).client(t).Class(t.Context(), "mail")
		if answer.Exit(err) != want.exit || want.is != nil && !errors.Is(err, want.is) {
			t.Errorf("%s: exit status %d, want %d: %v", reason, answer.Exit(err), want.exit, err)
		}
	}
}

// TestStrangers: what answers and is no API is told apart from what the API says.
func TestStrangers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status     int
		kind, body string
		is         error
		says       string
	}{
		{200, "text/html", "<html>", queue.ErrUnavailable, `the answer is no JSON but "text/html"; is http://127.0.0.1:1/base the address`},
		{200, "application/json", "{", queue.ErrUnavailable, "no reply from the API"},
		{200, "application/json", "[1]", queue.ErrUnavailable, "the answer cannot be read"},
		{404, "text/plain", "404 page not found", queue.ErrUnavailable, "GET /base/v1/classes/mail: Not Found, which is no answer of the API"},
		{401, "text/html", "", access.ErrDenied, "Unauthorized"},
		{403, "text/html", "", access.ErrDenied, "Forbidden"},
		{502, "text/html", "", queue.ErrUnavailable, "Bad Gateway"},
		{503, "application/problem+json", "no json", queue.ErrUnavailable, "Service Unavailable"},
		{302, "text/html", "", queue.ErrUnavailable, "to https://elsewhere.example.com/login; give that as the address"},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := &wires{answer: func(int, *http.Request, string) (*http.Response, error) {
				answer := raw(test.status, test.kind, test.body)
				answer.Header.Set("Location", "https://elsewhere.example.com/login")
				return answer, nil
			}}
			_, err := server.client(t).Class(t.Context(), "mail")
			if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%d: %v, want %v with %q", test.status, err, test.is, test.says)
			}
			for _, r := range server.asked {
				if r.URL.Host != "127.0.0.1:1" {
					t.Errorf("it went to %s", r.URL)
				}
			}
		})
	}
	// Nobody knows whether a proxy has passed on what it got no answer to.
	if _, err := (&wires{answer: func(int, *http.Request, string) (*http.Response, error) {
		return raw(502, "text/html", ""), nil
	}}).client(t).Pause(t.Context(), "mail", ""); !errors.Is(err, queue.ErrUnknown) {
		t.Errorf("a change behind a broken proxy: %v", err)
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	server := says(http.StatusOK, nil)
	if _, err := server.client(t).Class(ctx, "mail"); !errors.Is(err, context.Canceled) || len(server.asked) > 1 {
		t.Errorf("%v after %d tries", err, len(server.asked))
	}
}

// TestPages: pages are asked for one after the other, as far as somebody reads.
func TestPages(t *testing.T) {
	t.Parallel()
	server := &wires{answer: func(n int, _ *http.Request, _ string) (*http.Response, error) {
		page := wire.Page[wire.JobState]{Next: fmt.Sprint("after ", n)}
		if n != 2 { // one may be empty, and go on
			page.Items = []wire.JobState{{Ref: fmt.Sprint(n, "a")}, {Ref: fmt.Sprint(n, "b")}}
		}
		if n == 4 {
			page.Next = ""
		}
		return reply(http.StatusOK, page), nil
	}}
	before := time.Date(2026, 1, 31, 18, 0, 0, 1000, time.UTC)
	var refs []string
	for job, err := range server.client(t).Dead(t.Context(), queue.DeadQuery{Class: "mail", Key: "a/b&c", Before: before, Limit: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, job.Ref)
	}
	if diff := cmp.Diff([]string{"1a", "1b", "3a", "3b", "4a", "4b"}, refs); diff != "" {
		t.Error(diff)
	}
	var queries []string
	for _, r := range server.asked {
		queries = append(queries, r.URL.RawQuery)
	}
	want := []string{
		"before=2026-01-31T18%3A00%3A00.000001Z&class=mail&key=a%2Fb%26c&limit=2",
		"class=mail&cursor=after+1&key=a%2Fb%26c&limit=2",
		"class=mail&cursor=after+2&key=a%2Fb%26c&limit=2",
		"class=mail&cursor=after+3&key=a%2Fb%26c&limit=2",
	}
	if diff := cmp.Diff(want, queries); diff != "" {
		t.Error(diff)
	}
	server.asked = nil
	for _, err := range server.client(t).Jobs(t.Context(), queue.JobQuery{Class: "mail"}) {
		if err != nil || len(server.asked) != 1 {
			t.Errorf("%d pages were asked for, %v", len(server.asked), err)
		}
		break
	}
	p := wire.FromProblem(queue.ErrUnknownClass)
	for _, err := range says(p.Status, p).client(t).Buckets(t.Context(), queue.BucketQuery{Class: "mail"}) {
		if !errors.Is(err, queue.ErrUnknownClass) {
			t.Error(err)
		}
	}
}

// TestConfirms: what cannot be undone is confirmed as the server asks, and again when there is more by then.
func TestConfirms(t *testing.T) {
	t.Parallel()
	question := func(n string) wire.Problem {
		return wire.Problem{Status: http.StatusPreconditionRequired, Reason: wire.ReasonUnconfirmed, Confirm: n}
	}
	server := &wires{answer: func(_ int, r *http.Request, _ string) (*http.Response, error) {
		switch r.URL.Query().Get("confirm") {
		case "":
			return reply(428, question("3")), nil
		case "3":
			return reply(428, question("5")), nil
		}
		return reply(http.StatusOK, wire.Purged{Purged: 5}), nil
	}}
	c, ctx := server.client(t), t.Context()
	if n, err := c.WouldPurge(ctx, "mail", "k"); n != 3 || err != nil || len(server.asked) != 1 {
		t.Errorf("it would purge %d, %v", n, err)
	}
	if n, err := c.Purge(ctx, "mail", "k"); n != 5 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	if n, err := c.WouldPurgeDead(ctx, "mail", ""); n != 3 || err != nil {
		t.Errorf("it would purge %d dead, %v", n, err)
	}
	if n, err := c.PurgeDead(ctx, "mail", ""); n != 5 || err != nil {
		t.Errorf("purged %d dead, %v", n, err)
	}
	endless := says(428, question("1"))
	if _, err := endless.client(t).Purge(ctx, "mail", ""); err == nil || len(endless.asked) > 20 {
		t.Errorf("a server that never has enough: %v after %d tries", err, len(endless.asked))
	}
}

// TestNames: nothing that a name or a ref can hold leads to another place of the server.
func TestNames(t *testing.T) {
	t.Parallel()
	server := says(http.StatusOK, wire.Bucket{Rate: queue.Rate{Limit: 1, Period: time.Second}})
	c, ctx := server.client(t), t.Context()
	for _, name := range []string{"", ".", "..", "../jobs", "a/b", "a?b", "A", "a%2fb"} {
		if _, err := c.Class(ctx, name); !errors.Is(err, queue.ErrUnknownClass) {
			t.Errorf("class %q: %v", name, err)
		}
		if _, err := c.Job(ctx, name+"/.."); !errors.Is(err, queue.ErrInvalid) {
			t.Errorf("job %q: %v", name, err)
		}
	}
	if _, err := c.Pause(ctx, "mail", "a\nb"); !errors.Is(err, queue.ErrInvalid) {
		t.Error(err)
	}
	if _, err := c.Bucket(ctx, "mail", ""); !errors.Is(err, queue.ErrInvalid) {
		t.Error(err)
	}
	if len(server.asked) > 0 {
		t.Errorf("%d of them were asked for", len(server.asked))
	}
	for _, key := range []string{"../..", "a/b", "a?b=c&d#e", "日本 %2F", "."} {
		if _, err := c.Bucket(ctx, "mail", key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
		last := server.asked[len(server.asked)-1].URL
		if last.Path != "/base/v1/classes/mail/bucket" || last.Query().Get("key") != key {
			t.Errorf("%q is asked for at %s", key, last)
		}
	}
}

// TestAwait: it asks again until the job has ended, or its caller is gone.
func TestAwait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := queue.Ending{State: queue.Completed, At: time.UnixMicro(1767225600000001).UTC(), Result: []byte("ok")}
		server := &wires{answer: func(n int, r *http.Request, _ string) (*http.Response, error) {
			select {
			case <-time.After(30 * time.Second):
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
			if n < 5 {
				return reply(http.StatusAccepted, wire.JobState{Ref: "0-x"}), nil
			}
			return reply(http.StatusOK, wire.FromEnding(ended)), nil
		}}
		c := server.client(t)
		got, err := c.Await(t.Context(), "0-x")
		if diff := cmp.Diff(ended, got); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		if query := server.asked[0].URL.RawQuery; query != "wait=30s" {
			t.Error(query)
		}
		server.asked = nil
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		if _, err := c.Await(ctx, "0-x"); !errors.Is(err, context.DeadlineExceeded) || len(server.asked) != 2 {
			t.Errorf("%v after %d tries", err, len(server.asked))
		}
	})
}

// TestAwaitCrowded: a server where too many wait already answers at once, and is left alone for a while.
func TestAwaitCrowded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := says(http.StatusAccepted, wire.JobState{Ref: "0-x"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := server.client(t).Await(ctx, "0-x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if n := len(server.asked); n < 30 || n > 70 {
			t.Errorf("asked %d times in a minute", n)
		}
	})
}

func TestPutClass(t *testing.T) {
	t.Parallel()
	server := says(http.StatusOK, wire.Plan{
		Class: "mail", Change: "changed", Fields: []wire.SettingChange{{Field: "capacity", Old: "1", New: "2"}}, Applied: true, Version: 4,
	})
	c, ctx := server.client(t), t.Context()
	class := queue.NewClass("mail", 2, queue.Rate{Limit: 1, Period: time.Second})
	for want, put := range map[string]func() (queue.Class, error){
		"||":    func() (queue.Class, error) { return c.PutClass(ctx, class) },
		`||"3"`: func() (queue.Class, error) { return c.PutClassIf(ctx, class, 3) },
		"|*|":   func() (queue.Class, error) { return c.PutClassIf(ctx, class, 0) },
	} {
		stored, err := put()
		last := server.asked[len(server.asked)-1]
		if got := last.URL.RawQuery + "|" + last.Header.Get("If-None-Match") + "|" + last.Header.Get("If-Match"); err != nil || got != want || stored.Version != 4 {
			t.Errorf("%s, want %s: %v", got, want, err)
		}
	}
	plan, err := c.Diff(ctx, class)
	want := client.Plan{Change: "changed", Fields: []client.SettingChange{{Field: "capacity", Old: "1", New: "2"}}, Version: 4}
	if diff := cmp.Diff(want, plan); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if last := server.asked[len(server.asked)-1]; last.URL.RawQuery != "dry_run=true" {
		t.Error(last.URL)
	}
	before := len(server.asked)
	class.Capacity = 0
	if _, err := c.PutClass(ctx, class); !errors.Is(err, queue.ErrInvalid) || len(server.asked) != before {
		t.Errorf("a class that is not sound: %v", err)
	}
}

// TestRetryAllDead: it goes on where the server stopped, adds up what it tells, and says when an answer was cut off.
func TestRetryAllDead(t *testing.T) {
	t.Parallel()
	answers := []string{
		`{"class":"mail","retried":1,"left":0,"before":"2026-01-01T00:00:00.000000Z"}` + "\n" +
			`{"class":"mail","retried":3,"before":"2026-01-01T00:00:00.000000Z","ended":true}`,
		`{"class":"mail","retried":2,"left":0,"before":"2026-01-01T00:00:00.000000Z","ended":true}`,
	}
	server := &wires{answer: func(n int, _ *http.Request, _ string) (*http.Response, error) {
		return raw(200, "application/x-ndjson", answers[n-1]), nil
	}}
	var seen []int
	done, err := server.client(t).RetryAllDead(t.Context(), "mail", "", true, func(so queue.Revival) { seen = append(seen, so.Retried) })
	if diff := cmp.Diff([]int{1, 3, 5}, seen); diff != "" || err != nil || done.Retried != 5 {
		t.Errorf("%+v, %v, told %v", done, err, seen)
	}
	if first, second := server.asked[0], server.asked[1]; first.URL.Query().Get("wait") != "10m" || first.Header.Get("Accept") != "application/x-ndjson" ||
		first.URL.Query().Get("before") != "" || second.URL.Query().Get("before") != "2026-01-01T00:00:00.000000Z" {
		t.Errorf("it asks %s and then %s", first.URL, second.URL)
	}
	for body, want := range map[string]error{
		`{"class":"mail","retried":1,"left":2}` + "\n":                                              queue.ErrUnknown,
		`{"class":"mail","retried":1,"left":2}` + "\n" + `{"cla`:                                    queue.ErrUnknown,
		`{"class":"mail","retried":1,"problem":{"status":503,"reason":"unavailable","detail":"x"}}`: queue.ErrUnavailable,
	} {
		done, err := says200(body).client(t).RetryAllDead(t.Context(), "mail", "", true, func(queue.Revival) {})
		if !errors.Is(err, want) || done.Retried != 1 {
			t.Errorf("%s: %+v, %v", body, done, err)
		}
	}
}

func says200(body string) *wires {
	return &wires{answer: func(int, *http.Request, string) (*http.Response, error) {
		return raw(200, "application/x-ndjson", body), nil
	}}
}
