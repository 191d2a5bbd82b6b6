package api

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/jobline"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// batchBodyMost is the longest body of a batch.
const batchBodyMost = 16 << 20

func (s *server) describeBatch() {
	op := s.operation(http.MethodPost, "/v1/jobs/batch", "jobs", "Submit many jobs",
		fmt.Sprintf("Up to %d jobs, each answered on its own and in their order. Some may be admitted and others not. As application/x-ndjson, "+
			"a job line each and an answer each, with the number of its line.", jobline.Most),
		queue.ReasonTooLarge, reasonUnsupported)
	op.OperationID, op.MaxBodyBytes = "submit-batch", batchBodyMost
	s.reads(&op, reflect.TypeFor[wire.Batch](), map[string]any{"jobs": []any{exampleJob()}})
	op.RequestBody.Content[linesType] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: "A job in each line."}}
	s.answers(&op, http.StatusOK, "An answer to each job.", reflect.TypeFor[wire.BatchAnswer]())
	op.Responses["200"].Content[linesType] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: "An answer in each line."}}
	s.direct(op, s.batch)
}

func (s *server) batch(w http.ResponseWriter, r *http.Request) error {
	if err := access.From(r.Context()).Check(access.Operator); err != nil {
		return err // else each of its jobs would be refused
	}
	if len(r.Header[headerKey]) > 0 { // it would not make the batch repeatable
		return fmt.Errorf("%w: %s is for a single job; give each job of a batch an id", queue.ErrInvalid, headerKey)
	}
	body, err := readBody(r)
	if err != nil {
		return err
	}
	sent, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // the gate has seen to it
	asLines := sent == linesType
	split := jobline.Split
	if asLines {
		split = jobline.SplitLines
	}
	lines, err := split(body)
	if err != nil {
		return err
	}
	results := s.submitLines(r, lines)
	if answersLines(r.Header, asLines) {
		send(w, http.StatusOK, linesType, inLines(results))
		return nil
	}
	return sendJSON(w, http.StatusOK, inList(results))
}

// answersLines tells whether a batch is answered in lines: as it was sent, unless only the other form is accepted.
func answersLines(h http.Header, sentLines bool) bool {
	accept := strings.Join(h["Accept"], ",")
	inJSON, inLines := gate{accepts: []string{jsonType}}, gate{accepts: []string{linesType}}
	if json, lines := inJSON.acceptable(accept), inLines.acceptable(accept); json != lines {
		return lines
	}
	return sentLines
}

// submitLines submits those lines that are jobs.
func (s *server) submitLines(r *http.Request, lines []json.RawMessage) []queue.Result {
	results := make([]queue.Result, len(lines))
	jobs, places := make([]queue.Job, 0, len(lines)), make([]int, 0, len(lines))
	trace := jobline.Trace(r.Header.Get("traceparent"))
	for i, line := range lines {
		job, err := parseLine(line)
		if err != nil {
			results[i].Err = err
			continue
		}
		if job.ID == "" {
			job.ID = rand.Text() // here, so that an answer of unknown has it
		}
		job.Trace = trace
		jobs, places = append(jobs, job), append(places, i)
	}
	var hidden error // one for all: they fail together
	for i, result := range s.desk.SubmitMany(r.Context(), jobs) {
		s.tell(r.Context(), jobs[i], result.Receipt, result.Err)
		if public := wire.Public(result.Err); public != result.Err { //nolint:errorlint // whether it is another one
			hidden, result.Err = result.Err, public
		}
		result.Receipt.ID = jobs[i].ID
		results[places[i]] = result
	}
	if hidden != nil {
		s.mourn(r.Context(), hidden)
	}
	return results
}

func parseLine(line []byte) (queue.Job, error) {
	if len(line) > bodyMost {
		return queue.Job{}, fmt.Errorf("%w: the job has %d bytes; %d are read", queue.ErrTooLarge, len(line), bodyMost)
	}
	return jobline.Parse(line)
}

// said is the receipt or the rejection of one job, which has the id to repeat it with where nobody knows what became of it.
type said struct{ queue.Result }

// MarshalJSON writes what a list has, too.
func (s said) MarshalJSON() ([]byte, error) { return json.Marshal(wire.FromResult(s.Result)) }

func inLines(results []queue.Result) []byte {
	var b bytes.Buffer
	for i, r := range results {
		line, err := answer.OfLine{Line: i + 1, Answer: said{r}}.MarshalJSON()
		if err != nil {
			panic(err) // shapes of strings and numbers always marshal
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func inList(results []queue.Result) wire.BatchAnswer {
	answers := make([]wire.Answer, len(results))
	for i, r := range results {
		answers[i] = wire.FromResult(r)
	}
	return wire.BatchAnswer{Results: answers}
}
