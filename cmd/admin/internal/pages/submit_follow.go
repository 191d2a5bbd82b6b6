package pages

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/redact"
	"github.com/spout-queue/spout/queue"
)

// submitted is a job and its bucket, by now.
type submitted struct {
	queue.JobState
	Bucket queue.Bucket
	// Gone: it has ended, and nothing is kept of it.
	Gone bool
	// Again: the submission was a duplicate.
	Again bool
}

// follow reads a job and its bucket.
func (p *Pages) follow(ctx context.Context, ref string) (*submitted, error) {
	job, err := p.Desk.Job(ctx, ref)
	if errors.Is(err, queue.ErrNotFound) || err == nil && job.State == queue.Gone {
		return &submitted{JobState: queue.JobState{Ref: ref, Class: job.Class, Key: job.Key, State: queue.Gone}, Gone: true}, nil
	}
	if err != nil {
		return nil, err
	}
	bucket, err := p.Desk.Client().Buckets().Get(ctx, job.Class, job.Key)
	return &submitted{JobState: job, Bucket: bucket}, err
}

// Kind is how its state looks: good, warn or bad.
func (s submitted) Kind() string {
	switch s.State {
	case queue.Line, queue.Out, queue.Completed:
		return "good"
	case queue.Kept, queue.Expired, queue.Dropped:
		return "bad"
	default:
		return "warn"
	}
}

// Word is its state in one word, and Headline in a sentence.
func (s submitted) Word() string {
	switch s.State {
	case queue.Line:
		return "admitted"
	case queue.Later:
		if s.Attempts > 0 {
			return "parked"
		}
		return "delayed"
	default:
		return string(s.State)
	}
}

// Headline says what becomes of it.
func (s submitted) Headline() string {
	switch s.State {
	case queue.Line:
		return fmt.Sprintf("Position %d in %s", s.Position, s.Bucket.Name())
	case queue.Later:
		if s.Attempts > 0 {
			return "An attempt failed; it waits for the next one"
		}
		return "It joins the line later"
	case queue.Out:
		return "An attempt is running"
	case queue.Completed:
		return "Done"
	case queue.Kept:
		return "Dead: it failed, and is kept"
	case queue.Expired:
		return "It waited longer than it may"
	case queue.Cancelled:
		return "It was cancelled"
	case queue.Dropped:
		return "It was dropped to make room for another one"
	default:
		return "It has ended"
	}
}

// Starts is when it leaves if the bucket is drained at its rate from now on, as in the outflow law; zero while nobody can tell.
func (s submitted) Starts() time.Time {
	switch {
	case s.Bucket.Paused:
		return time.Time{}
	case s.State == queue.Later:
		return s.NotBefore
	case s.State != queue.Line || s.Position == 0:
		return time.Time{}
	}
	return s.Bucket.StartOf(s.Position)
}

// answerMost is how much of a result is shown here, in bytes; the page of the job has all of it.
const answerMost = 2 << 10

// Answer is the beginning of what the handler wrote, and Failure the last error, both without what looks like a secret.
func (s submitted) Answer() string {
	text, _ := redact.JSON(s.Result)
	if len(s.Result) == 0 {
		return ""
	}
	return beginning(string(text))
}

// Failure is the last error.
func (s submitted) Failure() string {
	text, _ := redact.Text(s.Error)
	return beginning(text)
}

func beginning(text string) string {
	if len(text) <= answerMost {
		return text
	}
	return strings.ToValidUTF8(text[:answerMost], "") + "…"
}

// Drawing is where in its bucket it is.
func (s submitted) Drawing() level { return newLevel(s.Bucket.Level, s.Bucket.Capacity, s.Position) }

// Closed says why nobody can tell when it starts.
func (s submitted) Closed() string {
	if s.Bucket.Paused {
		return "the bucket is paused"
	}
	return "it has no place in the line yet"
}

// version changes when what the page shows of it does.
func (s submitted) version() string {
	return fmt.Sprint(s.State, s.Position, s.Attempts, s.Cancelling, s.Bucket.Level, s.Bucket.Paused, s.Bucket.Hold.UnixMicro(), s.Bucket.Rate, s.Bucket.Capacity)
}

// level is a drawing of how full a bucket is, and where in it a job is.
type level struct {
	Width, Mark string
	Full        bool
	Text        string
}

// levelWidth is the room that the water has in the drawing.
const levelWidth = 296

func newLevel(is, capacity, position int) level {
	x := func(n int) string {
		return decimal(levelWidth * math.Min(1, float64(n)/float64(max(1, capacity))))
	}
	l := level{Width: x(is), Full: is >= capacity, Text: fmt.Sprintf("level %d of %d", is, capacity)}
	if l.Full {
		l.Text += ": full"
	}
	if position > 0 {
		l.Mark = x(position)
		l.Text += fmt.Sprintf("; the job is number %d", position)
	}
	return l
}
