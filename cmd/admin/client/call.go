package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spout-queue/spout/queue"
)

// call is one request.
type call struct {
	what         string // for errors
	method, path string
	query        url.Values
	header       http.Header
	body         any
	id           string        // of the job that it submits, if it does
	again        bool          // it may be sent twice
	wait         time.Duration // that the server is asked to take, or may

	status int // of the answer
}

const (
	tries      = 4
	leastPause = 100 * time.Millisecond
	mostPause  = 2 * time.Second
	answerTime = time.Minute      // for one try, besides what the server is asked to wait
	longTime   = 10 * time.Minute // more for what a server has to do with all jobs or buckets of a class
	answerMost = 64 << 20         // bytes of an answer
)

// without is what an error wraps when the call was sent and there is no answer to it.
func (a *call) without() error {
	if a.method == http.MethodGet {
		return queue.ErrUnavailable // nothing was changed
	}
	return queue.ErrUnknown
}

// do sends a call, more than once where that is no harm, and reads the answer. to may be nil.
func (c *Client) do(ctx context.Context, ask call, to any) (status int, err error) {
	body, err := encoded(ask.body)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", queue.ErrInvalid, ask.what, err)
	}
	pause := leastPause
	for try := 1; ; try++ {
		err := c.once(ctx, &ask, body, to)
		told, mayHelp := worthAgain(err)
		if err == nil || !mayHelp || !ask.again || try == tries || told > mostPause || ctx.Err() != nil {
			return ask.status, err
		}
		if sleep(ctx, max(told, pause/2+rand.N(pause/2))) != nil { //nolint:gosec // only to spread load
			return ask.status, err
		}
		pause = min(2*pause, mostPause)
	}
}

// encoded is a body as it is sent: payloads are compared byte for byte, so nothing in them is escaped.
func encoded(body any) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(body)
	return b.Bytes(), err
}

// worthAgain tells whether the same call may succeed a moment later, and when, if the server said so.
func worthAgain(err error) (told time.Duration, mayHelp bool) {
	answered, ok := errors.AsType[*Error](err)
	if !ok {
		return 0, errors.Is(err, queue.ErrUnavailable) || errors.Is(err, queue.ErrUnknown)
	}
	reasons := []queue.Reason{queue.ReasonUnavailable, queue.ReasonUnknown}
	return max(0, answered.RetryAfter), answered.Status >= 500 && slices.Contains(reasons, answered.Reason())
}

// once sends a call once.
func (c *Client) once(ctx context.Context, ask *call, body []byte, to any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime+ask.wait)
	defer cancel()
	reply, err := c.send(ctx, ask, body)
	if err != nil {
		return err
	}
	defer reply.Body.Close() //nolint:errcheck // only read
	defer rest(reply.Body)
	if to == nil {
		return nil
	}
	if kind, _, _ := mime.ParseMediaType(reply.Header.Get("Content-Type")); kind != "application/json" {
		return fmt.Errorf("%w: %s: the answer is no JSON but %q; is %s the address of an admin serve?", ask.without(), ask.what, kind, c.base)
	}
	limited := &io.LimitedReader{R: reply.Body, N: answerMost}
	switch err := json.NewDecoder(limited).Decode(to); {
	case err == nil:
		return nil
	case limited.N == 0:
		return fmt.Errorf("%w: %s: the answer is longer than %d bytes", ask.without(), ask.what, answerMost)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), ctx.Err() != nil:
		return transportError(ask, err)
	default:
		return fmt.Errorf("%w: %s: the answer cannot be read: %w", ask.without(), ask.what, err)
	}
}

const restMost = 64 << 10 // bytes behind what was read

// rest reads the rest of an answer, a line end mostly, so that its connection serves the next call.
func rest(body io.Reader) {
	_, _ = io.CopyN(io.Discard, body, restMost) // what is more is not waited for
}

// send sends a call and returns an answer that is good.
func (c *Client) send(ctx context.Context, ask *call, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, ask.method, c.base+ask.path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", queue.ErrInvalid, ask.what, err)
	}
	r.URL.RawQuery = ask.query.Encode()
	maps.Copy(r.Header, ask.header)
	r.Header.Set("User-Agent", c.agent)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	reply, err := c.http.Do(r)
	if err != nil {
		return nil, transportError(ask, err)
	}
	ask.status = reply.StatusCode
	if reply.StatusCode >= 200 && reply.StatusCode < 300 {
		return reply, nil
	}
	defer reply.Body.Close() //nolint:errcheck // only read
	return nil, readError(ask, reply)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// get reads a thing.
func get[W any](ctx context.Context, c *Client, what, path string, query url.Values) (W, error) {
	var thing W
	_, err := c.do(ctx, call{what: what, method: http.MethodGet, path: path, query: query, again: true}, &thing)
	return thing, err
}

// post has something done, once.
func post[W any](ctx context.Context, c *Client, what, path string, query url.Values, body any) (W, error) {
	var thing W
	_, err := c.do(ctx, call{what: what, method: http.MethodPost, path: path, query: query, body: body}, &thing)
	return thing, err
}

// values makes a query of names and values; what is empty is left out.
func values(pairs ...string) url.Values {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	return query
}
