package pages

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// deed is a button that changes something: a form of its own, which works without scripts.
type deed struct {
	ID, URL, Label string
	Kind           string // of the button: main, bad, or nothing
	Fields         []field
}

// field is a hidden value of a form.
type field struct{ Name, Value string }

// ask is a button that opens a question, in a dialog or, without scripts, as a page.
type ask struct{ URL, Part, Label, Kind string }

func (p *Pages) ask(label, kind, path string, pairs ...string) ask {
	return ask{p.url(path, pairs...), p.url(path, append(pairs, "part", "ask")...), label, kind}
}

func targetFields(t desk.Target) []field {
	return []field{{"class", t.Class}, {"key", t.Key}}
}

// targetOf reads which bucket, or class, a request is about, from its query or its form.
func targetOf(r *http.Request) desk.Target {
	return desk.Target{Class: r.FormValue("class"), Key: r.FormValue("key")}
}

// done sends the browser to a page that says what was done.
func (p *Pages) done(w http.ResponseWriter, r *http.Request, said, path string, pairs ...string) error {
	http.Redirect(w, r, p.url(path, append(pairs, "said", said)...), http.StatusSeeOther)
	return nil
}

// said is what a page says that a deed led to. The query only names the sentence: nobody can put words into our mouth.
func said(r *http.Request) []notice {
	text := map[string]string{
		"paused":    "Paused. Nothing leaves until somebody resumes it.",
		"resumed":   "Resumed. It goes on at its rate; nothing is made up for.",
		"held":      "Held. It opens by itself.",
		"unheld":    "The hold is over.",
		"draining":  "Draining: nothing more is admitted, and what is there leaves at its rate.",
		"purged":    "Purged. What waited is dropped; what is out goes on.",
		"cancelled": "Cancelled. It waited, and never starts.",
		"told":      "It is out and was told to end.",
		"retried":   "It goes round again, from the tail of its bucket.",
		"begun":     "They go round again, at the pace of their buckets.",
		"stopped":   "Stopped. What went round stays so.",
		"dropped":   "The dead jobs are dropped.",
		"some":      "Those for which there was room go round again. The rest is still dead.",
	}[r.URL.Query().Get("said")]
	if text == "" {
		return nil
	}
	return []notice{{"good", text}}
}

// slowly makes a view that looks at most once in a time; the frames between are the last one again.
func slowly(every time.Duration, look func(context.Context) (frame, error)) func(context.Context) (frame, error) {
	var last frame
	var err error
	var looked time.Time
	return func(ctx context.Context) (frame, error) {
		if now := time.Now(); looked.IsZero() || now.Sub(looked) >= every {
			last, err = look(ctx)
			looked = now
		}
		return last, err
	}
}

// refused shows a page again, with why something was not done. What is denied or is not there has a page of its own.
func refused(err error, again func(status int, why []notice) error) error {
	if errors.Is(err, access.ErrDenied) || errors.Is(err, queue.ErrUnknownClass) {
		return err
	}
	if shown := again(statusOf(err), []notice{{"bad", wire.Public(err).Error()}}); shown != nil {
		return errors.Join(err, shown)
	}
	return nil
}
