package handlers_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hibiken/asynq"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/spout-queue/spout/handlers"
)

// signingKey must not be seen anywhere.
var signingKey = base64.StdEncoding.EncodeToString([]byte("canary canary canary canary"))

func secrets(name string) (string, error) {
	switch name {
	case "partner":
		return "whsec_" + signingKey, nil
	case "short":
		return base64.StdEncoding.EncodeToString([]byte("canary")), nil
	case "text":
		return "canary, which is no base64", nil
	}
	return "", errors.New("there is no such secret")
}

// receiver is a service that takes webhooks.
type receiver struct {
	*service
	mu       sync.Mutex
	statuses []int // of the next answers; 200 after these
	ids      []string
	bodies   []string
	problems []error
}

func newReceiver(tb testing.TB, statuses ...int) *receiver {
	tb.Helper()
	r := &receiver{statuses: statuses}
	r.service = newService(tb, r.take)
	return r
}

func (r *receiver) take(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, _ := io.ReadAll(req.Body)
	hook, err := standardwebhooks.NewWebhook(signingKey)
	if err == nil {
		err = hook.Verify(body, req.Header)
	}
	if err != nil {
		r.problems = append(r.problems, err)
	}
	r.ids = append(r.ids, req.Header.Get("webhook-id"))
	r.bodies = append(r.bodies, string(body))
	if len(r.statuses) > 0 {
		w.WriteHeader(r.statuses[0])
		r.statuses = r.statuses[1:]
	}
}

func hookTask(payload string) *asynq.Task {
	return asynq.NewTaskWithHeaders(handlers.WebhookType, []byte(payload), map[string]string{
		"Spout-Class": "callbacks", "Spout-Key": "k", "Spout-Ref": "0-ref", "Spout-Http": `{"allow_private":true,"secrets":["partner","other","short","text"],"hosts":["127.0.0.1","a.example"]}`,
	})
}

func TestWebhookIsSigned(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, http.StatusServiceUnavailable, http.StatusOK)
	hook := handlers.NewWebhook(newCall(t, handlers.HTTPOptions{}), secrets)
	task := hookTask(`{"url":"` + r.URL + `/hooks","secret":"partner","body":{"n":1, "text":"é <b>"}}`)
	if err := hook.ProcessTask(t.Context(), task); err == nil {
		t.Error("503 is no error")
	}
	if err := hook.ProcessTask(t.Context(), task); err != nil {
		t.Error(err)
	}
	if len(r.problems) > 0 {
		t.Error(r.problems)
	}
	if want := []string{"0-ref", "0-ref"}; !slices.Equal(r.ids, want) {
		t.Errorf("ids %q, want %q", r.ids, want)
	}
	if want := `{"n":1, "text":"é <b>"}`; r.bodies[0] != want {
		t.Errorf("got %s, want %s", r.bodies[0], want)
	}
}

func TestWebhookGone(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, http.StatusGone)
	hook := handlers.NewWebhook(newCall(t, handlers.HTTPOptions{}), secrets)
	err := hook.ProcessTask(t.Context(), hookTask(`{"url":"`+r.URL+`","secret":"partner","body":{}}`))
	if !errors.Is(err, asynq.SkipRetry) || !strings.Contains(err.Error(), "wants no more") {
		t.Errorf("%v, want the end of it", err)
	}
}

func TestWebhookRefuses(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	hook := handlers.NewWebhook(newCall(t, handlers.HTTPOptions{}), secrets)
	for _, test := range []struct {
		payload, says string
		permanent     bool
	}{
		{`[]`, "not a JSON object", true},
		{`{"url":"http://a.example","secret":"partner"}`, `field "body": missing`, true},
		{`{"url":"http://a.example","secret":"partner","body":"text"}`, `field "body": not a JSON object`, true},
		{`{"url":"http://a.example","body":{}}`, `field "secret": missing`, true},
		{`{"url":"http://a.example","secret":"../x","body":{}}`, `not the name of a secret`, true},
		{`{"url":"ftp://a.example","secret":"partner","body":{}}`, `http:// or https://`, true},
		{`{"url":"http://a.example","secret":"partner","body":{},"id":"x"}`, `field "id": no such field`, true},
		{`{"url":"http://a.example","secret":"github","body":{}}`, `secret "github" refused: it is not in http: {secrets: [...]} of class "callbacks"`, true},
		{`{"url":"http://b.example","secret":"partner","body":{}}`, `target refused: host "b.example"`, true},
		{`{"url":"http://a.example","secret":"other","body":{}}`, `no secret "other" to sign the message with: there is no such secret`, false},
		{`{"url":"http://a.example","secret":"short","body":{}}`, `secret "short" cannot sign`, false},
		{`{"url":"http://a.example","secret":"text","body":{}}`, `secret "text" cannot sign`, false},
	} {
		err := hook.ProcessTask(t.Context(), hookTask(test.payload))
		if err == nil || !strings.Contains(err.Error(), test.says) || errors.Is(err, asynq.SkipRetry) != test.permanent {
			t.Errorf("%s: %v, permanent %v; want %q, %v", test.payload, err, errors.Is(err, asynq.SkipRetry), test.says, test.permanent)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the secret is told: %v", test.payload, err)
		}
	}
	// The class's settings count: this receiver is on loopback.
	task := asynq.NewTaskWithHeaders(handlers.WebhookType, []byte(`{"url":"`+r.URL+`","secret":"partner","body":{}}`),
		map[string]string{"Spout-Http": `{"secrets":["partner"],"hosts":["127.0.0.1"]}`})
	if err := hook.ProcessTask(context.Background(), task); !errors.Is(err, handlers.ErrRefused) {
		t.Errorf("%v, want %v", err, handlers.ErrRefused)
	}
}
