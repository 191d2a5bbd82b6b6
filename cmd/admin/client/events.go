package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// Event is something that happened to a job.
type Event struct {
	// What is admitted, duplicate, rejected, started, done, failed, held, dead, expired, cancelled, dropped or purged; or missed, and
	// then events are not told, at most Missed of them.
	What string
	At   time.Time
	// Class, Key, ID and Ref of the job; Reason of a rejection.
	Class, Key, ID, Ref string
	Reason              queue.Reason
	// Attempt is which one it is about, 0 for none, and Error what came of it, or why the job is held, until when, and whether its whole class is.
	Attempt    int
	Error      string
	Until      time.Time
	WholeClass bool
	// Missed is how many events came faster than they are told or read; 0 when nobody knows.
	Missed int
}

// EventQuery says what to hear of. The zero value is everything.
type EventQuery struct {
	// Class, and Key of one of its buckets.
	Class, Key string
	// What, as [Event] has it; empty is all of them.
	What []string
}

// eventMost is the longest line of a stream.
const eventMost = 64 << 10

// Events tells what happens from now on: what is submitted through that server, what becomes of jobs that workers have, and
// which end while they wait, anywhere. It goes on until ctx ends, which is no error, or the stream does,
// or says nothing for a minute, which is one: then begin again, and look for yourself at what was missed.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[Event, error] {
	ask := call{
		what: "listen to events", method: http.MethodGet, path: "/v1/events",
		query: values("class", q.Class, "key", q.Key, "what", strings.Join(q.What, ",")),
	}
	return func(yield func(Event, error) bool) {
		happens, err := c.listen(ctx, &ask)
		if err != nil {
			if ctx.Err() == nil {
				yield(Event{}, err)
			}
			return
		}
		defer happens.Close() //nolint:errcheck // only read
		if err := readEvents(happens, yield); err != nil && ctx.Err() == nil {
			yield(Event{}, transportError(&ask, err))
		}
	}
}

// readEvents passes on events until the stream ends, which is an error, or nobody wants more.
func readEvents(stream io.Reader, yield func(Event, error) bool) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, eventMost)
	name, data := "", ""
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case field == "event":
			name = value
		case field == "data":
			data += value
		case lines.Text() == "" && data != "":
			event, err := readEvent(name, data)
			if err != nil {
				return err
			}
			if !yield(event, nil) {
				return nil
			}
			name, data = "", ""
		}
	}
	if lines.Err() != nil {
		return lines.Err()
	}
	return io.ErrUnexpectedEOF
}

func readEvent(name, data string) (Event, error) {
	if name == "missed" {
		var missed wire.Missed
		err := json.Unmarshal([]byte(data), &missed)
		return Event{What: name, Missed: missed.Dropped}, wrongEvent(err)
	}
	var e wire.Event
	err := json.Unmarshal([]byte(data), &e)
	event := Event{
		What: e.What, At: time.Time(e.At), Class: e.Class, Key: e.Key, ID: e.ID, Ref: e.Ref, Reason: e.Reason, Attempt: e.Attempt, Error: e.Error,
		WholeClass: e.WholeClass,
	}
	if e.Until != nil {
		event.Until = time.Time(*e.Until)
	}
	return event, wrongEvent(err)
}

func wrongEvent(err error) error {
	if err != nil {
		return fmt.Errorf("an event cannot be read: %w", err)
	}
	return nil
}
