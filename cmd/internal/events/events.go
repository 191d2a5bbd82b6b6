// Package events tells over NATS what happens to jobs: to who listens, at most once, and never at the cost of the jobs. An
// event waits in a bounded buffer; when NATS or this process cannot keep up it is dropped, and counted.
package events

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spout-queue/spout/cmd/internal/jobstream"
)

// What happened to a job.
const (
	Admitted  = "admitted"
	Rejected  = "rejected"
	Started   = "started"
	Done      = "done"
	Failed    = "failed"
	Held      = "held" // the called service asked to be left alone; the job goes back to its bucket
	Dead      = "dead"
	Expired   = "expired"
	Cancelled = "cancelled"
	Dropped   = "dropped" // by overflow: drop-oldest
)

// Event is one thing that happened to one job. Empty fields are left out of the message.
type Event struct {
	What       string
	Class, Key string
	ID, Ref    string
	At         time.Time // zero is now
	Attempt    int       // 1 for the first
	Reason     string    // of a rejection
	Error      string    // of an attempt, or of a job that is dead or cancelled; why it is held
	Until      time.Time // when a hold ends
	WholeClass bool      // the hold is for all buckets of the class
	// Result is what the handler of a done job wrote. It goes to who waits for it.
	Result []byte
}

// ends tells whether the job has ended with it, and who waits for its result is told.
func (e *Event) ends() bool {
	switch e.What {
	case Done, Dead, Expired, Cancelled, Dropped:
		return true
	}
	return false
}

// Connection is what the publisher needs of NATS.
type Connection interface {
	PublishMsg(*nats.Msg) error
}

// buffered is how many events may wait: some seconds of a busy process.
const buffered = 8192

// Publisher publishes events. A nil one drops all, so that who has something to tell need not ask.
type Publisher struct {
	to       Connection
	subjects jobstream.Subjects
	source   string
	waiting  chan Event
	dropped  atomic.Int64
	start    string // of the ids of this process
	next     int64
}

// New returns a publisher. Source is what the events call this process, as in producer/bridge. Nothing is sent before Run.
func New(to Connection, subjects jobstream.Subjects, source string) *Publisher {
	return &Publisher{
		to: to, subjects: subjects, source: source, waiting: make(chan Event, buffered), start: rand.Text(),
	}
}

// Publish hands an event over. It never waits.
func (p *Publisher) Publish(e Event) {
	if p == nil {
		return
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	select {
	case p.waiting <- e:
	default:
		p.dropped.Add(1)
	}
}

// Dropped is how many events were lost in this process.
func (p *Publisher) Dropped() int64 {
	if p == nil {
		return 0
	}
	return p.dropped.Load()
}

// Run sends what is published until ctx ends, and then what is left.
func (p *Publisher) Run(ctx context.Context) {
	if p == nil {
		return
	}
	for {
		select {
		case e := <-p.waiting:
			p.send(&e)
		case <-ctx.Done():
			for {
				select {
				case e := <-p.waiting:
					p.send(&e)
				default:
					return
				}
			}
		}
	}
}

func (p *Publisher) send(e *Event) {
	p.next++
	id := p.start + "-" + strconv.FormatInt(p.next, 10)
	for _, m := range p.messages(e, id) {
		if p.to.PublishMsg(m) != nil {
			p.dropped.Add(1)
		}
	}
}

// messages are the event and, when the job has ended, its result.
func (p *Publisher) messages(e *Event, id string) []*nats.Msg {
	event := p.message(p.subjects.Event(e.Class, e.What), e, id, false)
	if !e.ends() || e.ID == "" {
		return []*nats.Msg{event}
	}
	return []*nats.Msg{event, p.message(p.subjects.Result(e.ID), e, id, true)}
}

// message is a CloudEvent in binary mode: attributes are headers, as its binding to NATS says.
func (p *Publisher) message(subject string, e *Event, id string, result bool) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Header = nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {id}, "ce-source": {p.source}, "ce-type": {"spout.job." + e.What},
		"ce-subject": {jobstream.Token(e.Class) + "/" + jobstream.Token(e.Key)}, "ce-time": {e.At.UTC().Format(time.RFC3339Nano)},
		"content-type": {"application/json"},
	}
	m.Data = p.data(e, result)
	return m
}

func (p *Publisher) data(e *Event, result bool) []byte {
	shape := struct {
		Class   string          `json:"class"`
		Key     string          `json:"key"`
		ID      string          `json:"id,omitempty"`
		Ref     string          `json:"ref,omitempty"`
		State   string          `json:"state,omitempty"`
		Attempt int             `json:"attempt,omitempty"`
		Reason  string          `json:"reason,omitempty"`
		Error   string          `json:"error,omitempty"`
		Until   time.Time       `json:"until,omitzero"`
		Whole   bool            `json:"whole_class,omitempty"`
		Result  json.RawMessage `json:"result,omitempty"`
		Text    string          `json:"result_text,omitempty"`
	}{Class: e.Class, Key: e.Key, ID: e.ID, Ref: e.Ref, Attempt: e.Attempt, Reason: e.Reason, Error: e.Error, Until: e.Until.UTC(), Whole: e.WholeClass}
	if result {
		shape.State = e.What
		if json.Valid(e.Result) {
			shape.Result = e.Result
		} else {
			shape.Text = string(e.Result)
		}
	}
	data, err := json.Marshal(shape)
	if err != nil {
		panic(err) // strings and valid JSON always marshal
	}
	return data
}
