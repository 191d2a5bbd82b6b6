package pages

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/internal/jobline"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// submitTimes is how often one form may be submitted at once.
const submitTimes = 100

// jobForm is what somebody wrote, and what is wrong with it, by field.
type jobForm struct {
	Class, Key, ID, Type, MaxWait, NotBefore, Times string
	// Shape tells whether the payload is made of a request's parts, or written as JSON.
	Shape                               string
	Method, URL, Headers, Body, Payload string
	// Once is the id of a job that has none: the same form sent twice is one job.
	Once  string
	Wrong map[string]string
}

// The shapes of a payload.
const (
	shapeRequest = "request"
	shapeJSON    = "json"
)

// Methods are those that http:call knows.
func (jobForm) Methods() []string {
	return []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions}
}

func newOnce() string { return "dashboard-" + strings.ToLower(rand.Text()[:16]) }

func newJobForm(class, key string) jobForm {
	return jobForm{Class: class, Key: key, Type: queue.DefaultType, Shape: shapeRequest, Method: http.MethodGet, Times: "1", Once: newOnce()}
}

func readJobForm(r *http.Request) jobForm {
	f := r.PostForm
	return jobForm{
		Class: f.Get("class"), Key: f.Get("key"), ID: f.Get("id"), Type: cmp.Or(strings.TrimSpace(f.Get("type")), queue.DefaultType),
		MaxWait: strings.TrimSpace(f.Get("max_wait")), NotBefore: strings.TrimSpace(f.Get("not_before")), Times: cmp.Or(f.Get("times"), "1"),
		Shape: f.Get("shape"), Method: f.Get("method"), URL: strings.TrimSpace(f.Get("url")), Headers: f.Get("headers"), Body: f.Get("body"),
		Payload: f.Get("payload"), Once: cmp.Or(f.Get("once"), newOnce()), Wrong: map[string]string{},
	}
}

// job reads the form; what cannot be read is noted as wrong. The queue checks the rest.
func (f jobForm) job(now time.Time) (job queue.Job, times int) {
	job = queue.Job{Class: f.Class, Key: f.Key, ID: cmp.Or(f.ID, f.Once), Type: f.Type}
	note := func(field string, err error) {
		if err != nil {
			f.Wrong[field] = err.Error()
		}
	}
	var err error
	if f.MaxWait != "" {
		job.MaxWait, err = jobline.ParseMaxWait(f.MaxWait)
		note("max_wait", err)
	}
	if f.NotBefore != "" {
		job.NotBefore, err = notBefore(f.NotBefore, now)
		note("not_before", err)
	}
	if times, err = strconv.Atoi(f.Times); err != nil || times < 1 || times > submitTimes {
		note("times", fmt.Errorf("it is not a whole number between 1 and %d", submitTimes))
	}
	if f.Shape == shapeRequest && f.Type == queue.DefaultType {
		job.Payload, err = f.request()
		note("headers", err)
	} else {
		job.Payload, err = checkJSON(f.Payload)
		note("payload", err)
	}
	return job, times
}

// notBefore is a time, or a duration from now on.
func notBefore(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(d), nil
	}
	t, err := jobline.ParseNotBefore(s)
	if err != nil {
		return t, fmt.Errorf("%w, nor a duration like 10m", err)
	}
	return t, nil
}

// request puts the parts together as http:call takes them.
func (f jobForm) request() (json.RawMessage, error) {
	headers := map[string]string{}
	for line := range strings.Lines(f.Headers) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		name = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))
		if _, twice := headers[name]; !ok || name == "" || twice {
			return nil, errors.New("write one header in each line, as in Accept: text/plain, and none twice")
		}
		headers[name] = strings.TrimSpace(value)
	}
	payload := struct {
		Method  string            `json:"method"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers,omitempty"`
		Body    string            `json:"body,omitempty"`
	}{f.Method, f.URL, headers, f.Body}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(payload)
	return b.Bytes(), err
}

// checkJSON tells where a text stops being JSON.
func checkJSON(text string) (json.RawMessage, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("it is empty; any JSON value will do, null too")
	}
	err := json.Unmarshal([]byte(text), &json.RawMessage{})
	if at, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := text[:min(int(at.Offset), len(text))]
		line := strings.Count(before, "\n") + 1
		column := len([]rune(before[strings.LastIndexByte(before, '\n')+1:]))
		return nil, fmt.Errorf("it is not JSON: line %d, character %d: %w", line, column, err)
	}
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	return json.RawMessage(text), nil
}

// blame names the field that an answer of the queue is about.
func (f jobForm) blame(err error) (field, text string) {
	text = wire.Public(err).Error()
	payload := "payload"
	if f.Shape == shapeRequest && f.Type == queue.DefaultType {
		payload = "url"
	}
	switch queue.ReasonOf(err) {
	case queue.ReasonUnknownClass:
		return "class", text
	case queue.ReasonConflict:
		return "id", text
	case queue.ReasonTooLarge:
		return payload, text
	case queue.ReasonInvalid:
		text = strings.TrimPrefix(text, queue.ErrInvalid.Error()+": ")
		for _, field := range []string{"class", "key", "id", "type", "max_wait", "not_before"} {
			if strings.HasPrefix(text, field+" ") {
				return field, text
			}
		}
		return payload, text
	default:
		return "", ""
	}
}
