package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/dunglas/httpsfv"

	"github.com/spout-queue/spout/cmd/admin/internal/lasting"
	"github.com/spout-queue/spout/cmd/internal/jobline"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// headerKey has the id of a job, when its body has none.
const headerKey = "Idempotency-Key"

// submissionReasons are why a submission can be refused.
func submissionReasons() []queue.Reason {
	return []queue.Reason{
		queue.ReasonFull, queue.ReasonClassFull, queue.ReasonStoreFull, queue.ReasonWouldExpire, queue.ReasonDraining, queue.ReasonConflict,
		queue.ReasonTooLarge, queue.ReasonUnknownClass, queue.ReasonUnknown, reasonUnsupported,
	}
}

func (s *server) describeSubmit() {
	op := s.operation(http.MethodPost, "/v1/jobs", "jobs", "Submit a job",
		"Puts a job into its bucket, or says when to come back. A submission with an id can be repeated: it stays one job, and is answered as the first time. "+
			"With wait, or Prefer: wait=30, the answer comes when the job has ended: 200 with ending; when the time is over before that, 202 without.",
		submissionReasons()...)
	op.OperationID = "submit"
	op.Parameters = append(op.Parameters, waitParam(),
		param("header", headerKey, "The id of the job, when the body has none; a text with or without the quotes of a structured field.", "invoice-7"),
		param("header", "Prefer", "wait=SECONDS, when the query has no wait.", ""))
	s.reads(&op, reflect.TypeFor[wire.Job](), exampleJob())
	s.answers(&op, http.StatusAccepted, "Admitted.", reflect.TypeFor[wire.Receipt]())
	s.answers(&op, http.StatusOK, "A duplicate, answered as the first time; or, with wait, a job that has ended.", reflect.TypeFor[wire.Receipt]())
	for _, status := range []string{"200", "202"} {
		op.Responses[status].Headers = locationHeader()
	}
	s.direct(op, s.submit)
}

func waitParam() *huma.Param {
	return param("query", "wait", "Wait so long for the job to end: a Go duration of at most 60s.", "30s")
}

func locationHeader() map[string]*huma.Header {
	return map[string]*huma.Header{"Location": {Description: "Where the job is.", Schema: &huma.Schema{Type: huma.TypeString}}}
}

func exampleJob() map[string]any {
	return map[string]any{
		"class": "github-api", "key": "tenant-42", "id": "invoice-7",
		"payload": map[string]any{"method": "GET", "url": "https://api.github.com/zen"},
	}
}

func (s *server) submit(w http.ResponseWriter, r *http.Request) error {
	wait, err := waitOf(r)
	if err != nil {
		return err
	}
	job, err := readJob(r)
	if err != nil {
		return err
	}
	receipt, err := s.desk.Submit(r.Context(), job)
	s.tell(r.Context(), job, receipt, err)
	if err != nil {
		return s.refused(r.Context(), receipt, err)
	}
	said := wire.FromReceipt(receipt)
	if wait > 0 {
		beBackIn(w, wait)
		said.Ending = s.await(r.Context(), receipt.Ref, wait)
	}
	status := http.StatusAccepted
	if receipt.Status == queue.Duplicate || said.Ending != nil {
		status = http.StatusOK
	}
	w.Header().Set("Location", s.base+"/v1/jobs/"+receipt.Ref)
	return sendJSON(w, status, said)
}

// refused is an error with the id that a submission of unknown outcome is repeated with.
func (s *server) refused(ctx context.Context, receipt queue.Receipt, err error) error {
	p := s.refusal(ctx, err)
	if errors.Is(err, queue.ErrUnknown) {
		p.ID = receipt.ID
	}
	return p
}

// readJob reads the job line of a request, and what its headers say about it.
func readJob(r *http.Request) (queue.Job, error) {
	id, err := idOf(r.Header)
	if err != nil {
		return queue.Job{}, err
	}
	body, err := readBody(r)
	if err != nil {
		return queue.Job{}, err
	}
	job, err := jobline.ParseWith(body, queue.Job{ID: id})
	job.Trace = jobline.Trace(r.Header.Get("traceparent"))
	return job, err
}

// readBody reads as much as the gate lets through.
func readBody(r *http.Request) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(max(r.ContentLength, 0), bodyMost)) + bytes.MinRead)
	_, err := b.ReadFrom(r.Body)
	if _, tooBig := errors.AsType[*http.MaxBytesError](err); err != nil && !tooBig {
		err = fmt.Errorf("%w: the body ended too early, or too late", queue.ErrInvalid)
	}
	return b.Bytes(), err
}

// idOf reads Idempotency-Key: the String of a structured field, as the draft has it, or the id as it is, as most services have it.
func idOf(h http.Header) (string, error) {
	values := h[headerKey]
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1 || values[0] == "":
		return "", fmt.Errorf("%w: %s is there %d times, or empty", queue.ErrInvalid, headerKey, len(values))
	case !strings.HasPrefix(values[0], `"`):
		return values[0], nil
	}
	item, err := httpsfv.UnmarshalItem(values)
	id, isText := item.Value.(string)
	if err != nil || !isText || id == "" {
		return "", fmt.Errorf("%w: %s begins with a quote and is no String of a structured field", queue.ErrInvalid, headerKey)
	}
	return id, nil
}

// waitMost is how long a request may wait for the end of a job.
const waitMost = time.Minute

// waitOf is how long a request wants to wait: as the query says, or a preference, of which what is too long is cut.
func waitOf(r *http.Request) (time.Duration, error) {
	text := ""
	if r.URL.RawQuery != "" {
		text = r.URL.Query().Get("wait")
	}
	if text != "" {
		wait, err := time.ParseDuration(text)
		if err != nil || wait < 0 || wait > waitMost {
			return 0, fmt.Errorf("%w: wait %q is not a duration of at most %v, like 30s", queue.ErrInvalid, clip(text), waitMost)
		}
		return wait, nil
	}
	for _, line := range r.Header["Prefer"] {
		for part := range strings.SplitSeq(line, ",") {
			preference, _, _ := strings.Cut(part, ";")
			name, value, _ := strings.Cut(preference, "=")
			n, err := strconv.ParseInt(strings.Trim(strings.TrimSpace(value), `"`), 10, 64)
			if strings.EqualFold(strings.TrimSpace(name), "wait") && err == nil && n > 0 { // one that is not understood is ignored: RFC 7240
				return time.Duration(min(n, int64(waitMost/time.Second))) * time.Second, nil
			}
		}
	}
	return 0, nil
}

// beBackIn keeps the connection for an answer that takes so long.
func beBackIn(w http.ResponseWriter, wait time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + writeTime)) // where there are none, the server has its own way
}

// await waits for the end of a job. It is nil when the time is over before, when too many wait already, when the server ends, or when
// Redis cannot say: the job is where it is.
func (s *server) await(ctx context.Context, ref string, wait time.Duration) *wire.Ending {
	select {
	case s.waiters <- struct{}{}:
		defer func() { <-s.waiters }()
	default:
		return nil
	}
	ctx, end := lasting.Until(ctx)
	defer end()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	ending, err := s.client.Await(ctx, ref)
	switch {
	case errors.Is(err, queue.ErrNotFound): // it ended before anybody listened
		return &wire.Ending{State: queue.Gone}
	case err != nil:
		return nil
	}
	return new(wire.FromEnding(ending))
}
