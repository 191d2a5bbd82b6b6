package pages

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// patch is what of a page looks different by now: for the id of an element, attributes and their values; the empty name
// stands for its text. The script takes only harmless attributes, see static/live.js.
type patch map[string]map[string]string

// liveView tells again and again how a page looks by now. It is made once per tab.
type liveView func(r *http.Request) (func(context.Context) (frame, error), error)

// frame is one look at what a page shows.
type frame struct {
	Patch patch
	// Parts have a version each. When one changes, the tab fetches the part of that name again: what is there is not what
	// is listed any more, and a patch cannot mend that.
	Parts map[string]string
}

// streamEvery is the time between two looks.
const streamEvery = 250 * time.Millisecond

// streamMost is how long a tab may take to read what it was sent.
const streamMost = 10 * time.Second

// serveLive is the stream of a tab: only what changed since the last look is sent.
func (p *Pages) serveLive(w http.ResponseWriter, r *http.Request) {
	view, ok := p.live[r.URL.Query().Get("view")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	look, err := view(r)
	if err != nil {
		http.Error(w, wire.Public(err).Error(), statusOf(err))
		return
	}
	done := p.Live.Look()
	defer done()
	s := stream{w: w, control: http.NewResponseController(w), parts: seenParts(r)}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	for {
		if err := s.send(r.Context(), look); err != nil {
			p.Log.LogAttrs(r.Context(), slog.LevelDebug, "a live view ended", slog.Any("error", err))
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// stream is what one tab was sent.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
	sent    patch
	parts   map[string]string
	quiet   int // looks since something was sent
}

// quietMost is after how many looks without news a tab is told that all is well.
const quietMost = 8

func (s *stream) send(ctx context.Context, look func(context.Context) (frame, error)) error {
	f, err := look(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var b bytes.Buffer
	if !s.begun {
		event(&b, "now", time.Now().UTC().Format(queue.TimeFormat))
		s.begun = true
	}
	if err != nil {
		event(&b, "stale", strings.TrimPrefix(wire.Public(err).Error(), "queue: "))
	} else {
		for _, part := range s.changed(f.Parts) {
			event(&b, "part", map[string]string{part: s.parts[part]})
		}
		news := s.news(f.Patch)
		if s.quiet++; len(news) > 0 || s.quiet >= quietMost {
			event(&b, "patch", news)
		}
	}
	if b.Len() == 0 {
		return nil
	}
	s.quiet = 0
	_ = s.control.SetWriteDeadline(time.Now().Add(streamMost)) // where that is not supported, the server's own holds
	if _, err := b.WriteTo(s.w); err != nil {
		return err
	}
	return s.control.Flush()
}

func event(b *bytes.Buffer, name string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // texts and maps of texts
	}
	fmt.Fprintf(b, "event: %s\ndata: %s\n\n", name, text)
}

// changed lists the parts that are not what they were.
func (s *stream) changed(parts map[string]string) []string {
	var list []string
	for part, version := range parts {
		is := brief(version)
		if was, known := s.parts[part]; known && was != is {
			list = append(list, part)
		}
		s.parts[part] = is
	}
	slices.Sort(list)
	return list
}

// liveQuery is the query of a live view that begins with the parts of a page as it was drawn: what changed between the page
// and its stream, or while nobody saw the tab, is fetched again too.
func liveQuery(view string, drawn map[string]string, pairs ...string) string {
	query := url.Values{"view": {view}}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	for part, version := range drawn {
		query.Add("drawn", part+"."+brief(version))
	}
	slices.Sort(query["drawn"])
	return query.Encode()
}

// seenParts are the versions of the parts that a tab has.
func seenParts(r *http.Request) map[string]string { return drawnIn(r.URL.Query()) }

func drawnIn(query url.Values) map[string]string {
	parts := map[string]string{}
	for _, text := range query["drawn"] {
		part, version, _ := strings.Cut(text, ".")
		parts[part] = version
	}
	return parts
}

// versionIn is the version of a part in the query of a live view; empty for one that it does not know.
func versionIn(live, part string) string {
	query, _ := url.ParseQuery(live) // it is ours
	return drawnIn(query)[part]
}

// brief is a version in few characters.
func brief(version string) string {
	sum := sha256.Sum256([]byte(version))
	return hex.EncodeToString(sum[:4])
}

// news is what changed since it was sent.
func (s *stream) news(now patch) patch {
	news := patch{}
	for id, attributes := range now {
		for name, value := range attributes {
			if had, ok := s.sent[id][name]; ok && had == value {
				continue
			}
			if news[id] == nil {
				news[id] = map[string]string{}
			}
			news[id][name] = value
		}
	}
	s.sent = now
	return news
}
