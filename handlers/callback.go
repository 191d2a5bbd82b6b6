package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/hibiken/asynq"
)

// Callbacks is an [asynq.Handler] around that of the type [HTTPCallType], which tells a
// receiver of the caller's choice when a job is done. A payload asks for that with
//
//	"callback": {"url": "https://…", "class": "callbacks", "key"?: "…", "secret": "name"}
//
// When the job is done, a job of the type [WebhookType] goes into the bucket of that
// class and key (the host of the url, when there is none): a callback has a rate,
// retries and a dead list of its own, and never holds up what it reports on. Its body
// is
//
//	{"type": "job.done", "timestamp": "2026-01-02T15:04:05Z",
//	 "data": {"ref", "id", "class", "key", "result": {"status", "headers", "body"}}}
//
// with the result that http:call wrote; of a job that is dead the type is job.dead, and data has its error. Its id is the ref of the job with :done after
// it, so that a job that runs twice is reported once, while the class remembers the id
// (dedup). A callback that finds no room is tried again for some seconds; after that,
// or when its class does not exist, it is given up and logged, because the call that it
// reports on must not be repeated for it.
type Callbacks struct {
	next   asynq.Handler
	submit func(context.Context, Job) (ref string, err error)
	log    *slog.Logger
}

// NewCallbacks returns a handler that runs next and submits callbacks with submit, which
// is as in [Submitter]. What cannot be submitted is told to log; nil discards it.
func NewCallbacks(next asynq.Handler, submit func(context.Context, Job) (ref string, err error), log *slog.Logger) *Callbacks {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Callbacks{next: next, submit: submit, log: log}
}

// ProcessTask runs the task and returns what became of it. A callback that cannot be
// read fails the job for good, before anything is called.
func (c *Callbacks) ProcessTask(ctx context.Context, task *asynq.Task) error {
	back, err := callbackOf(task.Payload())
	if err != nil {
		return badPayload(err)
	}
	if back == nil {
		return c.next.ProcessTask(ctx, task)
	}
	var result []byte
	if err := c.next.ProcessTask(listen(ctx, &result), task); err != nil {
		return err
	}
	c.tell(ctx, back, task.Headers(), event{Type: "job.done", Data: eventData{Result: result}})
	return nil
}

// Dead submits the callback of a job that is dead, if its payload asks for one: its type is
// job.dead, and data.error tells what the job died of. Only whoever settles jobs knows that
// one is dead, so that is who calls it, with the headers and the payload of the job's task. It
// may take as long as a callback waits for room.
func (c *Callbacks) Dead(ctx context.Context, headers map[string]string, payload []byte, why string) {
	back, err := callbackOf(payload)
	if err != nil || back == nil { // what cannot be read is why it is dead
		return
	}
	c.tell(ctx, back, headers, event{Type: "job.dead", Data: eventData{Error: clip(why, maxText)}})
}

// tell submits a callback about the job with these headers, or logs that it could not.
func (c *Callbacks) tell(ctx context.Context, back *callback, headers map[string]string, e event) {
	job, err := back.job(headers, e, time.Now())
	if err == nil {
		err = c.put(ctx, job)
	}
	if err != nil {
		c.log.LogAttrs(ctx, slog.LevelError, "a callback is lost: the job has ended, but its receiver will not hear of it",
			slog.String("ref", headers[headerRef]), slog.String("event", e.Type), slog.String("callback_class", back.class),
			slog.String("callback_key", back.key), slog.Any("error", err))
	}
}

// callbackPatience is how long a callback may wait for room: its job holds a slot of the
// worker meanwhile.
const callbackPatience = 5 * time.Second

// put submits a callback, and comes back as long as it is told to.
func (c *Callbacks) put(ctx context.Context, job Job) error {
	ctx, cancel := context.WithTimeout(ctx, callbackPatience)
	defer cancel()
	for {
		last, done := outlast(ctx) // a worker that stops has time for this
		_, err := c.submit(last, job)
		done()
		full, rejected := errors.AsType[*RejectedError](err)
		if !rejected || ctx.Err() != nil {
			return err
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < full.After {
			return err
		}
		select {
		case <-time.After(max(full.After, 50*time.Millisecond)):
		case <-ctx.Done():
			return err
		}
	}
}

// resultKey finds, in the context of a handler, where a handler around it wants its result.
type resultKey struct{}

// listen returns a context in which a handler's result is put into result too.
func listen(ctx context.Context, result *[]byte) context.Context {
	return context.WithValue(ctx, resultKey{}, result)
}

// listened tells whether there is a handler around this one that wants its result.
func listened(ctx context.Context) bool {
	_, ok := ctx.Value(resultKey{}).(*[]byte)
	return ok
}

// tellResult tells a handler's result to the handler around it, if there is one that wants it.
func tellResult(ctx context.Context, data []byte) {
	if result, ok := ctx.Value(resultKey{}).(*[]byte); ok {
		*result = data
	}
}

// callback is what a payload says about one.
type callback struct {
	url, class, key, secret string
}

// callbackOf reads the one field of a payload that is about a callback; nil when there
// is none. The rest of the payload is for others to judge.
func callbackOf(payload []byte) (*callback, error) {
	if !strings.Contains(string(payload), `"callback"`) {
		return nil, nil //nolint:nilnil // none asked for
	}
	var found *callback
	err := eachField(payload, func(name string, value json.RawMessage) error {
		if name != "callback" {
			return nil
		}
		var err error
		found, err = parseCallback(value)
		return err
	})
	return found, err
}

// parseCallback reads that field; null is no callback.
func parseCallback(value json.RawMessage) (*callback, error) {
	if string(value) == "null" {
		return nil, nil //nolint:nilnil // none asked for
	}
	var target, class, key, secret *string
	err := eachField(value, func(name string, value json.RawMessage) error {
		switch name {
		case "url":
			return decode(value, &target)
		case "class":
			return decode(value, &class)
		case "key":
			return decode(value, &key)
		case "secret":
			return decode(value, &secret)
		}
		return errUnknownField
	})
	if err != nil {
		return nil, err
	}
	u, err := parseURL(target)
	if err != nil {
		return nil, err
	}
	if class == nil || *class == "" {
		return nil, errors.New(`field "class": missing`)
	}
	if err := checkSecretName(secret); err != nil {
		return nil, err
	}
	c := &callback{url: *target, class: *class, key: hostOf(u), secret: *secret}
	if key != nil && *key != "" {
		c.key = *key
	}
	return c, nil
}

func hostOf(u *url.URL) string { return strings.ToLower(u.Host) }

// event is the body of a callback.
type event struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      eventData `json:"data"`
}

type eventData struct {
	Ref    string          `json:"ref"`
	ID     string          `json:"id"`
	Class  string          `json:"class"`
	Key    string          `json:"key"`
	Result json.RawMessage `json:"result,omitempty"` // of a done job
	Error  string          `json:"error,omitempty"`  // of a dead one
}

// job is the job that tells of the end of the one with these headers.
func (c *callback) job(headers map[string]string, e event, now time.Time) (Job, error) {
	e.Timestamp = now.UTC()
	e.Data.Ref, e.Data.ID, e.Data.Class, e.Data.Key = headers[headerRef], headers["Spout-Id"], headers[headerClass], headers[headerKey]
	payload, err := json.Marshal(messagePayload{URL: c.url, Secret: c.secret, Body: e}) //nolint:gosec // a secret's name, not the secret
	_, what, _ := strings.Cut(e.Type, ".")
	return Job{Class: c.class, Key: c.key, ID: e.Data.Ref + ":" + what, Type: WebhookType, Payload: payload}, err
}
