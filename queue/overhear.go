package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Event is one thing that happened to a job.
type Event struct {
	// What: started, done, failed (an attempt), held (its service would not take it then), dead, or cancelled, of a job that was
	// out; expired, cancelled, dropped or purged, of one that waited.
	What string `json:"what"`
	// At is when, by the server's time; of jobs that waited, by this program's.
	At time.Time `json:"at"`

	Class string `json:"class"`
	Key   string `json:"key"`
	ID    string `json:"id,omitempty"`
	Ref   string `json:"ref,omitempty"`
	// Attempt, 1 for the first; 0 for a job that waited.
	Attempt int `json:"attempt,omitempty"`
	// Error of an attempt, or why it was held; shortened to [EventErrorMost] bytes.
	Error string `json:"error,omitempty"`
	// Until when a hold lasts.
	Until time.Time `json:"until,omitzero"`
	// WholeClass: the hold is for all buckets of the class.
	WholeClass bool `json:"whole_class,omitempty"`
}

// EventErrorMost is how much of an error an [Event] has, in bytes.
const EventErrorMost = 300

// Ear is told what happens, by [Client.Overhear]. All three functions are needed; they are called one at a time.
type Ear struct {
	// Heard: something happened.
	Heard func(Event)
	// Missed: n events of a class were not told, since a worker had more of them than it tells. An empty class and 0 say that
	// nobody knows which: the connection was lost for a while.
	Missed func(class string, n int)
	// Listening: from now on, what happens is heard. It may be called again.
	Listening func()
}

// AskedEvents is what [Client.Wakes] passes on when somebody wants to hear of events; no bucket has this name.
const AskedEvents = "events"

// told is what a worker tells at a time.
type told struct {
	Events []Event        `json:"events"`
	Missed map[string]int `json:"missed,omitempty"`
}

// Overhear passes on, until ctx ends, what happens to jobs anywhere in the installation: those that end while they wait, and what
// becomes of those that workers have. It takes nothing from others who listen. Workers tell while somebody asks, which this does,
// and nothing otherwise. Any event may be lost. It reconnects by itself.
func (c *Client) Overhear(ctx context.Context, ear Ear) error {
	events := c.tags[0] + ":events"
	channels := []string{events}
	for _, tag := range c.tags {
		channels = append(channels, tag+":ends")
	}
	sub := c.rdb.Subscribe(ctx, channels...)
	defer sub.Close() //nolint:errcheck // nothing to lose: it only listens
	messages := sub.ChannelWithSubscriptions(redis.WithChannelSize(8192))
	ask := time.NewTicker(askEvery)
	defer ask.Stop()
	for again := false; ; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("listen for events: %w", ctx.Err())
		case <-ask.C:
			c.askForEvents(ctx)
		case m, ok := <-messages:
			if !ok {
				return fmt.Errorf("listen for events: %w", redis.ErrClosed)
			}
			switch m := m.(type) {
			case *redis.Subscription: // to all channels at once: one of them will do
				if m.Channel != events {
					break
				}
				if again { // the connection is a new one
					ear.Missed("", 0)
				}
				again = true
				c.askForEvents(ctx)
				ear.Listening()
			case *redis.Message:
				ear.hear(m, events)
			}
		}
	}
}

// askForEvents is asked again while somebody listens. A worker that does not hear it hears the next one.
func (c *Client) askForEvents(ctx context.Context) {
	_ = c.rdb.Publish(ctx, c.tags[0]+":ask", AskedEvents).Err()
}

func (ear *Ear) hear(m *redis.Message, events string) {
	if m.Channel != events {
		e := readWaitingEnd(m.Payload)
		ear.Heard(Event{What: string(e.State), At: time.Now(), Class: e.Class, Key: e.Key, ID: e.ID, Ref: e.Ref})
		return
	}
	var t told
	if json.Unmarshal([]byte(m.Payload), &t) != nil {
		ear.Missed("", 0) // of a later build, which tells in another way
		return
	}
	for _, e := range t.Events {
		ear.Heard(e)
	}
	for class, n := range t.Missed {
		ear.Missed(class, n)
	}
}

// Tell passes events on to who listens, see [Client.Wakes], and by class how many more there were.
func (c *Client) Tell(ctx context.Context, events []Event, missed map[string]int) error {
	text, err := json.Marshal(told{events, missed})
	if err != nil {
		return fmt.Errorf("tell events: %w", err)
	}
	if err := c.rdb.Publish(ctx, c.tags[0]+":events", text).Err(); err != nil {
		return redisError("tell events", err)
	}
	return nil
}
