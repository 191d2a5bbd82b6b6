package bridge

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/cmd/internal/jobline"
	"github.com/spout-queue/spout/cmd/internal/jobstream"
	"github.com/spout-queue/spout/queue"
)

// Headers of a message with a job.
const (
	HeaderKey = "Spout-Key" // the key, when the body has none
	HeaderID  = "Spout-Id"  // the id, when the body has none
)

// message is a delivered message of the stream, read.
type message struct {
	jetstream.Msg
	seq      uint64
	delivery uint64 // its number among those of the consumer, without gaps
	size     int
	job      queue.Job
	bad      error // why it is no job
}

// read never fails: what is wrong with a message is part of it. The error is about one that no stream delivered.
func (b *Bridge) read(m jetstream.Msg) (*message, error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, err
	}
	r := &message{Msg: m, seq: meta.Sequence.Stream, delivery: meta.Sequence.Consumer, size: len(m.Data())}
	r.job, r.bad = b.jobOf(m.Subject(), m.Headers(), m.Data())
	if r.job.ID == "" { // the same however often it is delivered, and never used again
		r.job.ID = b.o.Stream.Name + "-" + strconv.FormatUint(r.seq, 10) + "-" + strconv.FormatInt(meta.Timestamp.UnixNano(), 36)
	}
	return r, nil
}

// jobOf reads the job of a message in the stream. What is wrong with its subject is told even when the body is wrong too.
func (b *Bridge) jobOf(subject string, header nats.Header, data []byte) (queue.Job, error) {
	class, token, err := b.o.Stream.Subjects.ReadJobs(subject)
	if err != nil {
		return queue.Job{Class: class}, fmt.Errorf("%w: subject %s: %w", queue.ErrInvalid, subject, err)
	}
	job, err := parse(class, header, data)
	if err != nil {
		return job, err
	}
	if want := jobstream.Token(job.Key); token != want { // the order of a key is that of its subject
		return job, fmt.Errorf("%w: subject %s does not end in the token of the job's key, %s", queue.ErrInvalid, subject, want)
	}
	return job, nil
}

// bodyMost is the longest body that is read: the largest payload, with room for blanks and the other fields.
const bodyMost = queue.MaxPayload + 64<<10

func parse(class string, header nats.Header, data []byte) (queue.Job, error) {
	if len(data) > bodyMost {
		return queue.Job{Class: class}, fmt.Errorf("%w: the message has %d bytes; %d are read", queue.ErrTooLarge, len(data), bodyMost)
	}
	if len(data) == 0 {
		return queue.Job{Class: class}, fmt.Errorf("%w: %w", queue.ErrInvalid, errors.New("the message is empty; it must be a job line"))
	}
	told := queue.Job{Class: class, Key: header.Get(HeaderKey), ID: header.Get(HeaderID)}
	for name, first := range map[string]string{HeaderKey: told.Key, HeaderID: told.ID} {
		for _, other := range header.Values(name) {
			if other != first {
				return queue.Job{Class: class}, fmt.Errorf("%w: the header %s is there twice, with different values", queue.ErrInvalid, name)
			}
		}
	}
	job, err := jobline.ParseWith(data, told)
	if err != nil {
		return queue.Job{Class: class}, err
	}
	job.Trace = traceOf(header)
	return job, nil
}

// traceOf is the traceparent of a message, as W3C Trace Context has it: 55 characters. What is none is left out, since a
// trace must not keep a job from being admitted.
func traceOf(header nats.Header) string {
	trace := header.Get("traceparent")
	if len(trace) != 55 || strings.ContainsFunc(trace, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return trace
}
