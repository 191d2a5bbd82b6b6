package wire

import (
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/spout-queue/spout/queue"
)

// Job is one submission: what every door takes. How it is read, package jobline says; this is how it is written.
type Job struct {
	Class     string          `json:"class" doc:"Class of the bucket." pattern:"^[a-z0-9][a-z0-9_-]{0,63}$" example:"github-api"`
	Key       string          `json:"key" doc:"What the bucket is for, within its class: 1 to 256 bytes of UTF-8 without control characters." minLength:"1" maxLength:"256" example:"tenant-42"`
	ID        string          `json:"id,omitempty" doc:"Makes a submission repeatable: sent twice, it is one job. 1 to 128 bytes; a random one by default." maxLength:"128" example:"invoice-7"`
	Type      string          `json:"type,omitempty" doc:"Names the handler; http:call by default." maxLength:"128" example:"http:call"`
	Payload   json.RawMessage `json:"payload" doc:"Any JSON value, up to the max_payload of the class."`
	MaxWait   Duration        `json:"max_wait,omitempty" doc:"A job that would wait longer is rejected, one that has is expired: a Go duration of at least 1ms." example:"10m"`
	NotBefore *Time           `json:"not_before,omitempty" doc:"The job joins the line then; until then it only holds a place." format:"date-time"`
}

// FromJob is a job as it is sent. What only the Go SDK has, ack and trace, is left out.
func FromJob(j queue.Job) Job {
	return Job{
		Class: j.Class, Key: j.Key, ID: j.ID, Type: j.Type, Payload: j.Payload, MaxWait: Duration(j.MaxWait), NotBefore: timeOf(j.NotBefore),
	}
}

// timeOf is nil for no time.
func timeOf(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return new(Time(t))
}

// goTime is the inverse of timeOf.
func goTime(t *Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return time.Time(*t)
}

// JobState is what is known of one job.
type JobState struct {
	Ref            string          `json:"ref" doc:"Names the job in one word." example:"0-7mVXhJkUQpDZ6v5YbX1m0w"`
	Class          string          `json:"class" example:"github-api"`
	Key            string          `json:"key" example:"tenant-42"`
	ID             string          `json:"id" example:"invoice-7"`
	Type           string          `json:"type,omitempty" example:"http:call"`
	State          queue.State     `json:"state" enum:"line,later,out,dead,done,expired,cancelled,dropped,gone" doc:"Where the job is; gone when it has ended and only its identity is remembered."`
	Position       int             `json:"position,omitempty" doc:"Place in the line, 1 for the next to leave." minimum:"1"`
	AdmittedAt     *Time           `json:"admitted_at" format:"date-time"`
	EstimatedStart *Time           `json:"estimated_start,omitempty" format:"date-time" doc:"What the receipt told."`
	NotBefore      *Time           `json:"not_before,omitempty" format:"date-time" doc:"When a delayed or parked job joins the line."`
	ExpiresAt      *Time           `json:"expires_at,omitempty" format:"date-time" doc:"When it will have waited longer than it may."`
	Worker         string          `json:"worker,omitempty" doc:"Who has it out."`
	Attempts       int             `json:"attempts,omitempty" doc:"Attempts that have ended."`
	Error          string          `json:"error,omitempty" doc:"Of the last attempt."`
	EndedAt        *Time           `json:"ended_at,omitempty" format:"date-time"`
	DepartedAt     *Time           `json:"departed_at,omitempty" format:"date-time"`
	GivenBack      int             `json:"given_back,omitempty" doc:"Departures that went stale before the attempt started."`
	Crashes        int             `json:"crashes,omitempty" doc:"Workers that died with it."`
	Cancelling     bool            `json:"cancelling,omitempty" doc:"It is out and was told to end."`
	History        []Attempt       `json:"history,omitempty" nullable:"false" doc:"The attempts that have ended, at most the last 100."`
	Result         string          `json:"result,omitempty" doc:"What the handler wrote, when it is UTF-8."`
	ResultBase64   string          `json:"result_base64,omitempty" doc:"What the handler wrote, otherwise."`
	Payload        json.RawMessage `json:"payload,omitempty" required:"false"`
}

// FromJobState writes a job down.
func FromJobState(j queue.JobState) JobState {
	w := JobState{
		Ref: j.Ref, Class: j.Class, Key: j.Key, ID: j.ID, Type: j.Type, State: j.State, Position: j.Position,
		AdmittedAt: new(Time(j.AdmittedAt)), EstimatedStart: timeOf(j.EstimatedStart), NotBefore: timeOf(j.NotBefore),
		ExpiresAt: timeOf(j.ExpiresAt), Worker: j.Worker, Attempts: j.Attempts, Error: j.Error, EndedAt: timeOf(j.EndedAt),
		DepartedAt: timeOf(j.DepartedAt), GivenBack: j.GivenBack, Crashes: j.Crashes, Cancelling: j.Cancelling, Payload: j.Payload,
	}
	for _, a := range j.History {
		w.History = append(w.History, FromAttempt(a))
	}
	w.Result, w.ResultBase64 = writeResult(j.Result)
	return w
}

// ToQueue is the inverse of FromJobState.
func (w JobState) ToQueue() (queue.JobState, error) {
	j := queue.JobState{
		Ref: w.Ref, Class: w.Class, Key: w.Key, ID: w.ID, Type: w.Type, State: w.State, Position: w.Position,
		AdmittedAt: goTime(w.AdmittedAt), EstimatedStart: goTime(w.EstimatedStart), NotBefore: goTime(w.NotBefore),
		ExpiresAt: goTime(w.ExpiresAt), Worker: w.Worker, Attempts: w.Attempts, Error: w.Error, EndedAt: goTime(w.EndedAt),
		DepartedAt: goTime(w.DepartedAt), GivenBack: w.GivenBack, Crashes: w.Crashes, Cancelling: w.Cancelling, Payload: w.Payload,
	}
	for _, a := range w.History {
		j.History = append(j.History, a.ToQueue())
	}
	var err error
	j.Result, err = readResult(w.Result, w.ResultBase64)
	return j, err
}

// writeResult puts bytes that are not UTF-8 into base64.
func writeResult(result []byte) (text, encoded string) {
	if utf8.Valid(result) {
		return string(result), ""
	}
	return "", base64.StdEncoding.EncodeToString(result)
}

func readResult(text, encoded string) ([]byte, error) {
	if encoded != "" {
		return base64.StdEncoding.DecodeString(encoded)
	}
	if text == "" {
		return nil, nil
	}
	return []byte(text), nil
}

// Attempt is one attempt that has ended.
type Attempt struct {
	Number     int      `json:"number" minimum:"1"`
	Outcome    string   `json:"outcome" doc:"done, failed, crashed, cancelled, or held: the called service would not take it then." example:"failed"`
	Due        *Time    `json:"due,omitempty" format:"date-time" doc:"When the departure was due."`
	Departed   *Time    `json:"departed" format:"date-time"`
	Started    *Time    `json:"started,omitempty" format:"date-time" doc:"When the handler was called, where that is known."`
	LatenessMS *float64 `json:"lateness_ms,omitempty" doc:"The start seen from due, in milliseconds."`
	Ended      *Time    `json:"ended" format:"date-time"`
	Worker     string   `json:"worker"`
	Error      string   `json:"error,omitempty"`
}

// FromAttempt writes an attempt down.
func FromAttempt(a queue.Attempt) Attempt {
	w := Attempt{
		Number: a.Number, Outcome: a.Outcome, Due: timeOf(a.Due), Departed: new(Time(a.Departed)), Started: timeOf(a.Started),
		Ended: new(Time(a.Ended)), Worker: a.Worker, Error: a.Error,
	}
	if late, known := a.Lateness(); known {
		w.LatenessMS = new(float64(late.Microseconds()) / 1000)
	}
	return w
}

// ToQueue is the inverse of FromAttempt.
func (w Attempt) ToQueue() queue.Attempt {
	return queue.Attempt{
		Number: w.Number, Outcome: w.Outcome, Due: goTime(w.Due), Departed: goTime(w.Departed), Started: goTime(w.Started),
		Ended: goTime(w.Ended), Worker: w.Worker, Error: w.Error,
	}
}

// Ending is how a job ended.
type Ending struct {
	State        queue.State `json:"state" enum:"done,dead,expired,cancelled,dropped,gone" doc:"gone: it has ended, and nothing more is known."`
	At           *Time       `json:"at,omitempty" format:"date-time"`
	Result       string      `json:"result,omitempty" doc:"What the handler wrote, when it is UTF-8."`
	ResultBase64 string      `json:"result_base64,omitempty" doc:"What the handler wrote, otherwise."`
	Error        string      `json:"error,omitempty" doc:"Of a job that is dead or was cancelled."`
}

// FromEnding writes an ending down.
func FromEnding(e queue.Ending) Ending {
	w := Ending{State: e.State, At: timeOf(e.At), Error: e.Error}
	w.Result, w.ResultBase64 = writeResult(e.Result)
	return w
}

// ToQueue is the inverse of FromEnding.
func (w Ending) ToQueue() (queue.Ending, error) {
	result, err := readResult(w.Result, w.ResultBase64)
	return queue.Ending{State: w.State, At: goTime(w.At), Result: result, Error: w.Error}, err
}
