package pages

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/desk"
)

// partEvery is the least time between two fetches of a list that changes all the time.
const partEvery = 2 * time.Second

// liveBucket keeps the page of a bucket live: levels and times by patches, the line and the ruler as parts, seldom.
func (p *Pages) liveBucket(r *http.Request) (func(context.Context) (frame, error), error) {
	t, after := targetOf(r), r.URL.Query().Get("after")
	if _, err := p.Desk.Class(r.Context(), t.Class); err != nil {
		return nil, err
	}
	names := []string{t.String()}
	now := slowly(time.Second, func(ctx context.Context) (frame, error) { return p.bucketFrame(ctx, t) })
	parts := slowly(partEvery, func(ctx context.Context) (frame, error) {
		f, err := now(ctx)
		versions := map[string]string{"ruler": f.Parts["ruler"]}
		if after == "" { // a page further down stands still, for who reads it
			versions["line"] = f.Parts["line"]
		}
		return frame{Parts: versions}, err
	})
	return func(ctx context.Context) (frame, error) {
		f, err := now(ctx)
		if err != nil {
			return frame{}, err
		}
		seldom, err := parts(ctx)
		if err != nil {
			return frame{}, err
		}
		out := frame{Patch: patch{}, Parts: map[string]string{"state": f.Parts["state"], "ruler": seldom.Parts["ruler"]}}
		if v, ok := seldom.Parts["line"]; ok {
			out.Parts["line"] = v
		}
		maps.Copy(out.Patch, f.Patch)
		if v := p.vessels(names)[0]; v.Read { // not before somebody has looked for a moment
			v.patch(out.Patch, vessel{})
		}
		return out, nil
	}, nil
}

// bucketFrame reads a bucket as it is now.
func (p *Pages) bucketFrame(ctx context.Context, t desk.Target) (frame, error) {
	content := &bucketPage{Target: t}
	var err error
	if content.Class, content.Bucket, err = p.bucketNow(ctx, content.Target); err != nil {
		return frame{}, err
	}
	starts, err := p.Desk.Client().Starts(ctx, t.Class, t.Key)
	if err != nil {
		return frame{}, err
	}
	content.Pace.Told = len(starts)
	b := content.Bucket
	content.Verdict = judgeVessel(content.Class, b, p.vesselOf(b))
	f := frame{
		Patch: patch{
			"bucket-title":    {"": content.Verdict.Title},
			"bucket-line":     {"": number(b.Line)},
			"bucket-later":    {"": number(b.Later)},
			"bucket-overflow": {"": number(b.Overflowed)},
			"bucket-empties":  {"": orDash(content.Empties())},
			"bucket-retry":    {"": orDash(content.RetryAfter())},
		},
		Parts: content.parts(),
	}
	if b.Out >= 0 { // known
		f.Patch["bucket-out"] = map[string]string{"": number(b.Out)}
	}
	return f, nil
}

// parts are the versions of what the page shows.
func (c *bucketPage) parts() map[string]string {
	b, v := c.Bucket, c.Verdict
	title := v.Title
	if v.State == "stalled" || v.State == "rejecting" { // their titles count
		title = v.State
	}
	line, ruler := "", ""
	if b.Level > 0 { // how long its jobs have waited; and others may be in it that are as many
		line = fmt.Sprint(b.At.Unix() / 10)
	}
	if c.Pace.Told > 0 {
		ruler = fmt.Sprint(b.At.Unix() / 2) // it moves with the time
	}
	return map[string]string{
		"state": fmt.Sprint(title, v.Text, b.Paused, b.Draining, b.Level > 0, b.Hold, b.Rate, b.Capacity, b.Out < 0, c.Class.Version),
		"line":  fmt.Sprint(b.Line, b.Later, b.Due, b.Paused, b.Hold, line),
		"ruler": ruler,
	}
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}
