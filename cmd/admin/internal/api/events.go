package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

const (
	eventsPath = "/v1/events"
	eventsType = "text/event-stream"
	// writeTime is how long a reader of events may not read.
	writeTime = 10 * time.Second
	// reconnectMS is when a client that lost its stream should ask again.
	reconnectMS = 2000
)

func (s *server) routeEvents() {
	op := s.operation(http.MethodGet, eventsPath, "service", "Listen to what happens",
		"Server-sent events, named by what happened, with an Event as data. Anywhere in the installation: started, done, failed (an attempt), held and dead, as workers "+
			"tell while somebody listens, and expired, cancelled, dropped and purged. Of submissions (admitted, duplicate, rejected) those through this server. "+
			"Nothing is kept for later: a stream begins with now, and one that was interrupted (Last-Event-ID) with a missed event. What comes faster "+
			"than it is told or read is dropped, and counted in a missed event. Comments keep the connection alive.", queue.ReasonUnknownClass)
	op.Parameters = append(op.Parameters, param("query", "class", "Only of one class.", "github-api"),
		param("query", "key", "Only of one bucket; needs class.", "tenant-42"),
		param("query", "what", "Only these, with commas between.", "dead,failed"),
		param("header", "Last-Event-ID", "What browsers send when they reconnect.", ""))
	op.Responses["200"] = &huma.Response{
		Description: "Events, until one of both goes away.",
		Content: map[string]*huma.MediaType{eventsType: {Schema: &huma.Schema{
			Type: huma.TypeString, Description: "The data of each event is an Event, or that of a missed event Missed.",
			Extensions: map[string]any{"x-data": []*huma.Schema{s.schema(reflect.TypeFor[wire.Event]()), s.schema(reflect.TypeFor[wire.Missed]())}},
		}}},
	}
	s.direct(op, s.listen)
}

// happenings are all that an event can tell of.
func happenings() []string {
	return []string{
		"admitted", "duplicate", "rejected", "started", "done", "failed", "held", "dead", "expired", "cancelled", "dropped", "purged",
	}
}

// filterOf reads what a request wants to hear of, of which the person may.
func (s *server) filterOf(r *http.Request) (filter, error) {
	person, query := access.From(r.Context()), r.URL.Query()
	if err := person.Check(access.Viewer); err != nil {
		return filter{}, err
	}
	only := query.Get("class")
	f := filter{key: query.Get("key"), sees: func(class string) bool { return (only == "" || class == only) && person.Sees(class) }}
	if only != "" {
		if _, err := s.desk.Class(r.Context(), only); err != nil {
			return f, err
		}
	} else if f.key != "" {
		return f, fmt.Errorf("%w: key is there without class; a bucket has both", queue.ErrInvalid)
	}
	if query.Get("what") == "" {
		return f, nil
	}
	f.what = strings.Split(query.Get("what"), ",")
	for _, what := range f.what {
		if !slices.Contains(happenings(), what) {
			return f, fmt.Errorf("%w: what has %q; known are %s", queue.ErrInvalid, clip(what), strings.Join(happenings(), ", "))
		}
	}
	return f, nil
}

func (s *server) listen(w http.ResponseWriter, r *http.Request) error {
	wanted, err := s.filterOf(r)
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead { // it would not end
		w.Header().Set("Content-Type", eventsType)
		return nil
	}
	l, ok := s.hub.enter(r.Context(), wanted)
	if !ok {
		p := newProblem(queue.ReasonUnavailable, fmt.Sprintf("%d listen already, which is all that there may be", listenersMost))
		p.retryAfter(time.Minute)
		return p
	}
	defer s.hub.leave(l)
	w.Header().Set("Content-Type", eventsType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // else nginx keeps events back
	w.WriteHeader(http.StatusOK)
	stream := &stream{w: w, control: http.NewResponseController(w)}
	if stream.begin(r.Header.Get("Last-Event-ID") != "") == nil {
		s.pass(r, l, stream)
	}
	return nil // what goes wrong from here on is that nobody reads
}

// pass writes what is heard until nobody reads any more.
func (s *server) pass(r *http.Request, l *listener, to *stream) {
	beat := time.NewTicker(s.heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-beat.C:
			to.comment()
		case e := <-l.heard:
			to.event(e.What, e)
		}
		missed := s.hub.missed(l) // what was missed by now came behind what is heard by now
		for n := len(l.heard); n > 0; n-- {
			e := <-l.heard
			to.event(e.What, e)
		}
		if missed != nil {
			to.event("missed", missed)
		}
		if to.flush() != nil {
			return
		}
	}
}

// stream writes server-sent events, all that there are at a time.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	last    int
	waiting bytes.Buffer
}

func (s *stream) begin(again bool) error {
	fmt.Fprintf(&s.waiting, "retry: %d\n\n", reconnectMS)
	if again {
		s.event("missed", wire.Missed{Detail: "what happened while the stream was interrupted is not kept"})
	}
	return s.flush()
}

func (s *stream) comment() { s.waiting.WriteString(":\n\n") }

func (s *stream) event(name string, data any) {
	s.last++
	body, err := json.Marshal(data)
	if err != nil {
		panic(err) // strings, numbers and times always marshal
	}
	fmt.Fprintf(&s.waiting, "id: %d\nevent: %s\ndata: %s\n\n", s.last, name, body)
}

func (s *stream) flush() error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTime)) // where there are none, the server has its own way
	if _, err := s.waiting.WriteTo(s.w); err != nil {
		return err
	}
	if err := s.control.Flush(); err != nil {
		return err
	}
	_ = s.control.SetWriteDeadline(time.Time{}) // HTTP/2 ends a stream by the deadline, also one that has nothing to write
	return nil
}
