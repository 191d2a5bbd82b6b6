package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// Submit puts one job into its bucket, or says why not, as [queue.Client.Submit] does. A job without an id gets one before it
// is first sent, and a lost reply is asked for again with it. The Ack of a job is for the SDK alone: it is refused.
func (c *Client) Submit(ctx context.Context, job queue.Job) (queue.Receipt, error) {
	if job.ID == "" {
		job.ID = rand.Text()
	}
	body, err := lineOf(job)
	if err != nil {
		return queue.Receipt{ID: job.ID}, err
	}
	ask := call{
		what: "submit " + job.Class + "/" + job.Key, method: http.MethodPost, path: "/v1/jobs", header: traced(job), body: body, id: job.ID, again: true,
	}
	var receipt wire.Receipt
	if _, err := c.do(ctx, ask, &receipt); err != nil {
		return queue.Receipt{ID: job.ID}, err
	}
	return receipt.ToQueue(), nil
}

// lineOf is a job as it is sent, checked for what JSON cannot say.
func lineOf(job queue.Job) (json.RawMessage, error) {
	switch {
	case len(job.Payload) == 0:
		return nil, fmt.Errorf("%w: payload is missing; any JSON value will do, null too", queue.ErrInvalid)
	case job.Ack != "":
		return nil, fmt.Errorf("%w: the API takes no ack of a single job; set that of its class", queue.ErrInvalid)
	}
	line, err := encoded(wire.FromJob(job))
	if err != nil {
		return nil, fmt.Errorf("%w: payload is not one JSON value: %w", queue.ErrInvalid, err)
	}
	return line, nil
}

// traced passes on the trace that the job is part of.
func traced(job queue.Job) http.Header {
	if job.Trace == "" {
		return nil
	}
	return http.Header{"Traceparent": {job.Trace}}
}

const (
	batchMost  = 1000        // jobs of one request
	batchBytes = 16<<20 - 64 // bytes of jobs after which a request is closed early: 16 MiB are read, with what is around them
)

// SubmitMany submits many jobs and answers each as Submit would, in the order given; a thousand travel in one request. Jobs of
// one bucket keep their order: after a request without an answer nothing more is sent. It is not atomic. Their Trace is not
// passed on.
func (c *Client) SubmitMany(ctx context.Context, jobs []queue.Job) []queue.Result {
	results := make([]queue.Result, len(jobs))
	lines := make([]json.RawMessage, len(jobs))
	for i, job := range jobs {
		if job.ID == "" {
			job.ID = rand.Text()
		}
		results[i].Receipt.ID = job.ID
		lines[i], results[i].Err = lineOf(job)
	}
	for from := 0; from < len(jobs); {
		to := from + batchLength(lines[from:])
		if err := c.submitBatch(ctx, lines[from:to], results[from:to]); err != nil {
			for i := range results[to:] {
				notSent(&results[to+i], err)
			}
			break
		}
		from = to
	}
	return results
}

func notSent(r *queue.Result, err error) {
	if r.Err == nil {
		r.Err = fmt.Errorf("%w: not sent, since those before it had no answer: %w", queue.ErrUnavailable, err)
	}
}

// batchLength is how many of the lines fit into one request, at least one.
func batchLength(lines []json.RawMessage) int {
	bytes := 0
	for n, line := range lines {
		bytes += len(line)
		if n == batchMost || n > 0 && bytes > batchBytes {
			return n
		}
	}
	return len(lines)
}

// submitBatch sends the lines that have nothing wrong. The error says that there was no answer; then it is in the results, too.
func (c *Client) submitBatch(ctx context.Context, lines []json.RawMessage, results []queue.Result) error {
	var places []int
	var batch struct {
		Jobs []json.RawMessage `json:"jobs"`
	}
	for i, line := range lines {
		if results[i].Err == nil {
			places, batch.Jobs = append(places, i), append(batch.Jobs, line)
		}
	}
	if len(places) == 0 {
		return nil
	}
	ask := call{what: fmt.Sprintf("submit %d jobs", len(places)), method: http.MethodPost, path: "/v1/jobs/batch", body: batch, again: true}
	var answer struct {
		Results []wire.Answer `json:"results"`
	}
	_, err := c.do(ctx, ask, &answer)
	if err == nil && len(answer.Results) != len(places) {
		err = fmt.Errorf("%w: the API answered %d jobs of %d", queue.ErrUnknown, len(answer.Results), len(places))
	}
	for n, i := range places {
		if err != nil {
			results[i].Err = err
			continue
		}
		results[i] = readAnswer(answer.Results[n], results[i].Receipt.ID)
	}
	return err
}

func readAnswer(a wire.Answer, id string) queue.Result {
	if a.Status != "rejected" {
		return queue.Result{Receipt: a.Receipt().ToQueue()}
	}
	return queue.Result{Receipt: queue.Receipt{ID: id, Ref: a.Ref}, Err: fromProblem(a.Problem())}
}

// SubmitWait submits a job and, while there is no room, waits as long as it is told and submits it again: the same job, so
// that nothing is admitted twice. It returns when the job is admitted, when ctx ends (the last refusal and the context's
// error, both wrapped) or when waiting would not help.
func (c *Client) SubmitWait(ctx context.Context, job queue.Job) (queue.Receipt, error) {
	var extra time.Duration // longer and longer: where waiting as told is in vain, nobody drains
	for {
		receipt, err := c.Submit(ctx, job)
		job.ID = receipt.ID
		full, ok := errors.AsType[*queue.FullError](err)
		if !ok {
			return receipt, err
		}
		if sleep(ctx, max(full.RetryAfter+departureGood, extra)) != nil {
			return receipt, fmt.Errorf("%w; gave up waiting for room: %w", err, context.Cause(ctx))
		}
		extra = min(max(2*extra, leastPause), mostExtra)
	}
}

const (
	departureGood = 25 * time.Millisecond // so that the departure that makes room has happened
	mostExtra     = 5 * time.Second
)
