package handlers

import (
	"context"
	"time"
)

// Job is what this package asks a [Submitter] to put into a bucket.
type Job struct {
	// Class and Key name the bucket.
	Class, Key string
	// ID makes the job's identity, together with Class and Key. It is never empty.
	ID string
	// Type names the handler, such as [HTTPCallType].
	Type string
	// Payload is a JSON object.
	Payload []byte
	// MaxWait is the longest that the job may wait in line; 0 is no limit.
	MaxWait time.Duration
}

// Submitter is a way into the buckets. This package knows no queue: whoever ties the two
// together fills in the functions, which takes a dozen lines; see the example of
// [Transport]. They must be safe for concurrent use and return when their context ends.
type Submitter struct {
	// Submit puts a job into its bucket and returns its ref. A job of the same identity
	// that was there before is no error. When there is no room now, the error has a
	// [*RejectedError] in its chain.
	Submit func(context.Context, Job) (ref string, err error)
	// Await returns how a job ended, as soon as it has.
	Await func(ctx context.Context, ref string) (Ending, error)
	// Cancel ends a job: one that waits never departs, and of one that runs the context
	// ends.
	Cancel func(ctx context.Context, ref string) error
}

// Ending is how a job ended.
type Ending struct {
	// State is done, dead, expired, cancelled or dropped.
	State string
	// Result is what the handler of a done job wrote.
	Result []byte
	// Error is what a dead job died of.
	Error string
}

// The states that this package looks at.
const (
	stateDone    = "done"
	stateExpired = "expired"
)

// RejectedError says that there is no room for a job now.
type RejectedError struct {
	// Err is what the queue said; the error has its text.
	Err error
	// After is the time until the same job could be admitted, 0 for now.
	After time.Duration
	// Late: the job was rejected because it would wait for longer than its MaxWait.
	Late bool
}

func (e *RejectedError) Error() string { return e.Err.Error() }

// RetryAfter is the time until the same job could be admitted.
func (e *RejectedError) RetryAfter() time.Duration { return e.After }

// Timeout tells, as in [net.Error], whether it was for lack of time.
func (e *RejectedError) Timeout() bool { return e.Late }

// Temporary is true, as [net.Error] has it for what may be tried again.
func (e *RejectedError) Temporary() bool { return true }

// Unwrap has [context.DeadlineExceeded] among the causes of a job that is Late.
func (e *RejectedError) Unwrap() []error {
	if e.Late {
		return []error{e.Err, context.DeadlineExceeded}
	}
	return []error{e.Err}
}
