package api

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/cmd/admin/internal/lasting"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

const (
	// passTime is how long one pass over the dead jobs may take, where the answer comes in one piece.
	passTime = 30 * time.Second
	// revivalMost is how long one request may go on with passes.
	revivalMost = 10 * time.Minute
	// lineEvery is the time between two lines of progress; while there is none, one comes lineLeast.
	lineEvery = 250 * time.Millisecond
	lineLeast = 5 * time.Second
)

func (s *server) routeRevival() {
	op := s.operation(http.MethodPost, "/v1/dead/retry", "dead", "Send dead jobs round again",
		"The oldest first: each for which there is room joins the tail of its bucket and leaves at its rate. As JSON it is one pass, of at most half a minute: while some are left, repeat it "+
			"after retry_after_ms with the same before; without left, it had not seen all. As application/x-ndjson (Accept) it tells how far it is, a line each, and with wait "+
			"goes on pass after pass while some find no room; the last line has ended, or the problem. Whoever hangs up ends it, and so does the end of this server: "+
			"what went round by then stays so, and the same request with the same before goes on.",
		queue.ReasonUnknownClass, queue.ReasonUnknown)
	class := param("query", "class", "The class of the jobs.", "github-api")
	class.Required = true
	op.Parameters = append(op.Parameters, class, param("query", "key", "The key of one bucket; all of the class by default.", ""),
		param("query", "before", "Only those that had died by this time, in RFC 3339; now by default. Send back what the first answer told, so that jobs which die again are left alone.", ""),
		param("query", "wait", "How long to wait for room: a Go duration of at most 10m; as application/x-ndjson only.", "10m"))
	s.answers(&op, http.StatusOK, "What was done.", reflect.TypeFor[wire.Revived]())
	op.Responses["200"].Content[linesType] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: "How far it is, in each line."}}
	s.direct(op, s.retryDead)
}

// revival is one wish to have dead jobs sent round.
type revival struct {
	target  desk.Target
	before  time.Time
	wait    time.Duration
	inLines bool
}

func (s *server) revivalOf(r *http.Request) (revival, error) {
	query := r.URL.Query()
	v := revival{target: desk.Target{Class: query.Get("class"), Key: query.Get("key")}, inLines: wantsLines(r.Header)}
	if v.target.Class == "" {
		return v, fmt.Errorf("%w: the class is missing", queue.ErrInvalid)
	}
	if err := s.desk.Allow(r.Context(), access.Operator, v.target.Class); err != nil {
		return v, err
	}
	if text := query.Get("wait"); text != "" {
		wait, err := time.ParseDuration(text)
		switch {
		case err != nil || wait < 0 || wait > revivalMost:
			return v, fmt.Errorf("%w: wait %q is not a duration of at most %v, like 5m", queue.ErrInvalid, clip(text), revivalMost)
		case !v.inLines:
			return v, fmt.Errorf("%w: wait goes with Accept: %s, which tells how far it is", queue.ErrInvalid, linesType)
		}
		v.wait = wait
	}
	now, err := s.desk.Now(r.Context())
	if v.before = now; err != nil || query.Get("before") == "" {
		return v, err
	}
	before, err := timeOf("before", query.Get("before"))
	if before.Before(now) { // else jobs that die again would go round again and again
		v.before = before
	}
	return v, err
}

// wantsLines tells whether an Accept asks for lines.
func wantsLines(h http.Header) bool {
	for part := range strings.SplitSeq(strings.Join(h["Accept"], ","), ",") {
		if name, _, err := mime.ParseMediaType(part); err == nil && name == linesType {
			return true
		}
	}
	return false
}

func (s *server) retryDead(w http.ResponseWriter, r *http.Request) error {
	v, err := s.revivalOf(r)
	if err != nil {
		return err
	}
	if _, err := s.desk.Class(r.Context(), v.target.Class); err != nil {
		return err // before anything was answered
	}
	if v.inLines {
		s.reviveInLines(w, r, v)
		return nil
	}
	beBackIn(w, passTime)
	lasts, end := lasting.Until(r.Context())
	defer end()
	pass, cancel := context.WithTimeout(lasts, passTime)
	defer cancel()
	done, err := s.desk.RetryDead(pass, v.target, v.before, nil)
	said := v.says(done)
	switch {
	case err != nil && pass.Err() != nil && r.Context().Err() == nil: // it goes on with the next request
		said.Left, said.RetryAfterMS = nil, new(int64(0))
	case err != nil:
		p := s.refusal(r.Context(), err)
		p.Done = &wire.Done{Retried: done.Retried}
		return p
	}
	return sendJSON(w, http.StatusOK, said)
}

func (v *revival) says(done queue.Revival) wire.Revived {
	return wire.FromRevival(v.target.Class, v.target.Key, done, v.before)
}

// reviveInLines does it for as long as somebody reads how far it is.
func (s *server) reviveInLines(w http.ResponseWriter, r *http.Request, v revival) {
	ctx, cancel := lasting.Until(r.Context())
	defer cancel()
	var mu sync.Mutex
	var so queue.Revival
	note := func(now queue.Revival) {
		mu.Lock()
		defer mu.Unlock()
		so = now
	}
	last := make(chan wire.Revived, 1)
	go func() { last <- s.revive(ctx, v, note) }()
	w.Header().Set("Content-Type", linesType)
	w.Header().Set("X-Accel-Buffering", "no")
	out := stream{w: w, control: http.NewResponseController(w)}
	tick := time.NewTicker(lineEvery)
	defer tick.Stop()
	var told queue.Revival
	at := time.Time{}
	for out.flush() == nil { // else nobody reads, and cancel ends it
		select {
		case said := <-last:
			out.line(said)
			_ = out.flush() // the last one
			return
		case now := <-tick.C:
			mu.Lock()
			is := so
			mu.Unlock()
			if is != told || now.Sub(at) >= lineLeast {
				told, at = is, now
				out.line(v.says(is))
			}
		}
	}
	cancel()
	<-last
}

// revive does it and returns the last line.
func (s *server) revive(ctx context.Context, v revival, note func(queue.Revival)) wire.Revived {
	do := func(ctx context.Context) (queue.Revival, error) {
		return s.desk.RetryDead(ctx, v.target, v.before, note)
	}
	inTime := ctx
	if v.wait > 0 {
		limited, cancel := context.WithTimeout(ctx, v.wait)
		defer cancel()
		inTime = limited
		do = func(ctx context.Context) (queue.Revival, error) { return s.desk.Revive(ctx, v.target, v.before, note) }
	}
	done, err := do(inTime)
	said := v.says(done)
	switch {
	case err == nil:
		said.Ended = true
	case ctx.Err() == nil && inTime.Err() != nil: // it goes on with the next request
		said.Left, said.RetryAfterMS, said.Ended = nil, new(int64(0)), true
	case ctx.Err() != nil:
		said.Left, said.RetryAfterMS = nil, nil
		said.Problem = &newProblem(queue.ReasonUnavailable, "the server ends: ask again with the same before").Problem
		said.Problem.Title = "The server ends"
	default:
		said.Left, said.RetryAfterMS = nil, nil
		said.Problem = &s.refusal(ctx, err).Problem
	}
	return said
}

// line writes a thing as one line.
func (s *stream) line(thing any) {
	body, err := json.Marshal(thing)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	s.waiting.Write(body)
	s.waiting.WriteByte('\n')
}
