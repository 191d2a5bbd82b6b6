package handlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// ErrTruncated ends the body of a response that was longer than what a job keeps of it
// (40 KiB). It comes after the part that is there.
var ErrTruncated = errors.New("handlers: the body goes on, but a job keeps no more of it; call the service directly for large answers")

// callResult is the result of a job of the type [HTTPCallType].
type callResult struct {
	Status     int         `json:"status"`
	Headers    http.Header `json:"headers"`
	Body       string      `json:"body"`
	BodyBase64 []byte      `json:"body_base64"`
	Truncated  bool        `json:"truncated"`
}

func (r *callResult) body() []byte {
	if r.BodyBase64 != nil {
		return r.BodyBase64
	}
	return []byte(r.Body)
}

// response makes the response to req of how its job ended.
func response(req *http.Request, ref string, e Ending) (*http.Response, error) {
	switch e.State {
	case stateDone:
	case stateExpired:
		return nil, timeoutError{fmt.Errorf("job %s waited in line for longer than it may and was not sent", ref)}
	default:
		return nil, &EndedError{Ref: ref, State: e.State, Detail: e.Error}
	}
	var r callResult
	if err := json.Unmarshal(e.Result, &r); err != nil || r.Status < 200 || r.Status > 999 {
		return nil, &EndedError{Ref: ref, State: e.State, Detail: "its result is no http response; " +
			"its workers must handle " + HTTPCallType + " and be as new as this program"}
	}
	resp := &http.Response{
		Status:     strconv.Itoa(r.Status) + " " + http.StatusText(r.Status),
		StatusCode: r.Status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:  http.Header{},
		Body:    http.NoBody,
		Request: req,
	}
	for name, values := range r.Headers {
		resp.Header[http.CanonicalHeaderKey(name)] = values
	}
	setBody(resp, r.body(), r.Truncated)
	return resp, nil
}

// setBody gives a response its body, and its ContentLength as net/http has it: what the
// header says where there is no body to count.
func setBody(resp *http.Response, body []byte, truncated bool) {
	said, err := strconv.ParseInt(resp.Header.Get("Content-Length"), 10, 64)
	if err != nil || said < 0 {
		said = -1
	}
	switch {
	case resp.Request.Method == http.MethodHead:
		resp.ContentLength = said
	case truncated:
		resp.ContentLength = -1
		if said > int64(len(body)) {
			resp.ContentLength = said
		}
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), truncation{}))
	case len(body) > 0:
		resp.ContentLength = int64(len(body))
		resp.Body = io.NopCloser(bytes.NewReader(body))
	}
}

// truncation is read where the rest of a body should be.
type truncation struct{}

func (truncation) Read([]byte) (int, error) { return 0, ErrTruncated }
