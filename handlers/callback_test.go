package handlers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/handlers"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// A call goes out, is answered, and its callback goes through a bucket of its own until
// the receiver has taken it. Nothing in Redis tells the secret.
func TestCallbackFromEndToEnd(t *testing.T) {
	t.Parallel()
	up := upstream(t)
	r := newReceiver(t, 500, 503)
	mux := handlers.NewMux()
	s := newSystem(t, mux)
	call := newCall(t, handlers.HTTPOptions{FreshUntil: scheduler.FreshUntil})
	mux.Handle(handlers.HTTPCallType, handlers.NewCallbacks(call, submitterTo(s.Client).Submit, nil))
	mux.Handle(handlers.WebhookType, handlers.NewWebhook(call, secrets))
	s.class(t, 10, fast, nil)
	back := queue.NewClass("callbacks", 10, fast)
	back.Retention, back.Dedup = time.Minute, time.Hour
	back.HTTP.AllowPrivate, back.HTTP.Hosts, back.HTTP.Secrets = true, []string{"127.0.0.1"}, []string{"partner"}
	back.Retry.Backoff, back.Retry.MaxBackoff = time.Millisecond, time.Millisecond
	if _, err := s.Classes().Put(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(object{
		"url": up.URL + "/none", "method": "GET",
		"callback": object{"url": r.URL + "/done", "class": "callbacks", "secret": "partner"},
	})
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := s.Submit(t.Context(), queue.Job{Class: "api", Key: "tenant", ID: "order-7", Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := s.Await(t.Context(), receipt.Ref); err != nil || e.State != queue.Completed {
		t.Fatalf("%+v, %v", e, err)
	}
	// What is submitted again is a duplicate of the callback, and tells its ref.
	again := queue.Job{Class: "callbacks", Key: strings.TrimPrefix(r.URL, "http://"), ID: receipt.Ref + ":done", Payload: []byte(`0`)}
	known, err := s.Submit(t.Context(), again)
	if !errors.Is(err, queue.ErrConflict) {
		t.Errorf("%v, want a conflict with the callback that is there", err)
	}
	if e, err := s.Await(t.Context(), known.Ref); err != nil || e.State != queue.Completed || !strings.Contains(string(e.Result), `"status":200`) {
		t.Fatalf("%+v, %v", e, err)
	}
	if len(r.bodies) != 3 || len(r.problems) > 0 {
		t.Fatalf("%d messages, %v; want 3 attempts that are signed well", len(r.bodies), r.problems)
	}
	var got struct {
		Type      string
		Timestamp time.Time
		Data      struct {
			Ref, ID, Class, Key string
			Result              struct{ Status int }
		}
	}
	if err := json.Unmarshal([]byte(r.bodies[2]), &got); err != nil {
		t.Fatal(err)
	}
	if age := time.Since(got.Timestamp); age < 0 || age > time.Minute || got.Type != "job.done" || got.Data.Result.Status != 204 {
		t.Errorf("%+v, %v old", got, age)
	}
	if diff := cmp.Diff([]string{receipt.Ref, "order-7", "api", "tenant"}, []string{
		got.Data.Ref, got.Data.ID, got.Data.Class, got.Data.Key,
	}); diff != "" {
		t.Error(diff)
	}
	s.noCanary(t)
}

// noCanary looks for the secret in all that Redis has. To see that it would be found, it
// puts one there.
func (s system) noCanary(t *testing.T) {
	t.Helper()
	if err := s.Redis().ConfigSet(t.Context(), "rdbcompression", "no").Err(); err != nil { // dumps are to be read
		t.Fatal(err)
	}
	if err := s.Redis().Set(t.Context(), "control", "a "+signingKey, 0).Err(); err != nil {
		t.Fatal(err)
	}
	keys, err := s.Redis().Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, key := range keys {
		dump, err := s.Redis().Dump(t.Context(), key).Result()
		if err == nil && strings.Contains(dump, signingKey) {
			found = append(found, key)
		}
	}
	if diff := cmp.Diff([]string{"control"}, found); diff != "" {
		t.Errorf("these have the secret in them (-want +got):\n%s", diff)
	}
}

const withCallback = `{"url":"http://a.example","callback":{"url":"http://b.example:81/x","class":"callbacks","key":"k","secret":"s"}}`

func callTask(payload string) *asynq.Task {
	return asynq.NewTaskWithHeaders(handlers.HTTPCallType, []byte(payload), map[string]string{"Spout-Ref": "0-ref"})
}

func TestCallbackOnlyOfWhatIsDone(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for _, test := range []struct {
		name, payload string
		err           error
		jobs          int
	}{
		{"done", withCallback, nil, 1},
		{"failed", withCallback, failed, 0},
		{"none asked for", `{"url":"http://a.example"}`, nil, 0},
		{"null", `{"url":"http://a.example","callback":null}`, nil, 0},
		{"mentioned elsewhere", `{"url":"http://a.example","body":"\"callback\"","headers":{"callback":"x"}}`, nil, 0},
	} {
		var jobs []handlers.Job
		next := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return test.err })
		err := handlers.NewCallbacks(next, kept(&jobs, fine).Submit, nil).ProcessTask(t.Context(), callTask(test.payload))
		if !errors.Is(err, test.err) || len(jobs) != test.jobs {
			t.Errorf("%s: %v, %d callbacks; want %v, %d", test.name, err, len(jobs), test.err, test.jobs)
		}
		if len(jobs) > 0 {
			got := jobs[0]
			got.Payload = nil
			want := handlers.Job{Class: "callbacks", Key: "k", ID: "0-ref:done", Type: handlers.WebhookType}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}
	}
}

// A worker that would send no callback does not make the call.
func TestCallbackWithoutCallbacks(t *testing.T) {
	t.Parallel()
	err := newCall(t, handlers.HTTPOptions{}).ProcessTask(t.Context(), callTask(withCallback))
	if !errors.Is(err, asynq.SkipRetry) || !strings.Contains(err.Error(), "this worker sends none") {
		t.Errorf("%v; want it refused for good", err)
	}
}

func TestCheckPayload(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ typ, payload, says string }{
		{handlers.HTTPCallType, withCallback, ""},
		{handlers.HTTPCallType, `{"url":"http://a","callback":{}}`, `bad http:call payload: field "callback": field "url": missing`},
		{handlers.WebhookType, `{"url":"http://a","secret":"s","body":{}}`, ""},
		{handlers.WebhookType, `{"url":"http://a"}`, `bad webhook:send payload: field "body": missing`},
		{handlers.NATSPublishType, `{"subject":"a"}`, ""},
		{handlers.NATSPublishType, `{"subject":"*"}`, `bad nats:publish payload: field "subject": has a wildcard`},
		{handlers.ExecType, `{"name":"a"}`, ""},
		{handlers.ExecType, `{}`, `bad exec payload: field "name": missing`},
		{"mail:send", `whatever`, ""},
	} {
		err := handlers.CheckPayload(test.typ, []byte(test.payload))
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s %s: %v, want %q", test.typ, test.payload, err, test.says)
		}
	}
}

func TestCallbackOfADeadJob(t *testing.T) {
	t.Parallel()
	var jobs []handlers.Job
	back := handlers.NewCallbacks(nil, kept(&jobs, fine).Submit, nil)
	headers := map[string]string{"Spout-Ref": "0-ref", "Spout-Id": "order-7", "Spout-Class": "api", "Spout-Key": "tenant"}
	for _, payload := range []string{`{"url":"http://a.example"}`, `{"callback":7}`, `no json "callback"`, withCallback} {
		back.Dead(t.Context(), headers, []byte(payload), "GET http://a.example: answered 500")
	}
	if len(jobs) != 1 || jobs[0].ID != "0-ref:dead" || jobs[0].Type != handlers.WebhookType || jobs[0].Class != "callbacks" {
		t.Fatalf("%+v; want one callback", jobs)
	}
	var got struct{ Body map[string]any }
	if err := json.Unmarshal(jobs[0].Payload, &got); err != nil {
		t.Fatal(err)
	}
	delete(got.Body, "timestamp")
	want := map[string]any{"type": "job.dead", "data": map[string]any{
		"ref": "0-ref", "id": "order-7", "class": "api", "key": "tenant", "error": "GET http://a.example: answered 500",
	}}
	if diff := cmp.Diff(want, got.Body); diff != "" {
		t.Error(diff)
	}
}

func TestCallbackRefuses(t *testing.T) {
	t.Parallel()
	for value, says := range map[string]string{
		`"x"`:                               "not a JSON object",
		`{"class":"c","secret":"s"}`:        `field "url": missing`,
		`{"url":"http://a","secret":"s"}`:   `field "class": missing`,
		`{"url":"http://a","class":"c"}`:    `field "secret": missing`,
		`{"url":"gopher://a","class":"c"}`:  "http:// or https://",
		`{"url":"http://a","class":7}`:      "must be a string",
		`{"url":"http://a","clas":"c"}`:     "no such field",
		`{"url":"http://a","url":"http:/"}`: "given twice",
	} {
		next := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			t.Errorf("%s: called", value)
			return nil
		})
		err := handlers.NewCallbacks(next, nil, nil).ProcessTask(t.Context(), callTask(`{"callback":`+value+`}`))
		if !errors.Is(err, asynq.SkipRetry) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q for good", value, err, says)
		}
	}
}

// A callback that finds no room comes back when told; after some seconds it is given up
// and logged, and the job is done all the same.
func TestCallbackWaitsForRoom(t *testing.T) {
	t.Parallel()
	done := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })
	for _, test := range []struct {
		name   string
		room   int // submissions before there is room
		after  time.Duration
		took   time.Duration
		logged bool
	}{
		{"at once", 0, 0, 0, false},
		{"when told", 1, 2 * time.Second, 2 * time.Second, false},
		{"not in time", 1, time.Minute, 0, true},
		{"never", 1000, time.Second, 5 * time.Second, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := 0
				submit := func(context.Context, handlers.Job) (string, error) {
					if n++; n <= test.room {
						return "", &handlers.RejectedError{Err: errors.New("it is full"), After: test.after}
					}
					return "0-x", nil
				}
				var log bytes.Buffer
				back := handlers.NewCallbacks(done, submit, slog.New(slog.NewTextHandler(&log, nil)))
				began := time.Now()
				if err := back.ProcessTask(t.Context(), callTask(withCallback)); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > test.took || took < test.took-time.Second {
					t.Errorf("took %v, want %v", took, test.took)
				}
				if got := strings.Contains(log.String(), "it is full"); got != test.logged {
					t.Errorf("logged %q", log.String())
				}
			})
		})
	}
}
