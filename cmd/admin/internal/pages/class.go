package pages

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/live"
	"github.com/spout-queue/spout/queue"
)

func (p *Pages) classRoutes() {
	p.get("/class", p.class)
	p.get("/charts/class", p.classChart)
	p.live["class"] = p.liveClass
	p.classDeeds()
}

const (
	// classVessels are drawn of a class; the rest is a table.
	classVessels = 12
	// bucketsPage is about how many buckets one page of the table has.
	bucketsPage = 50
)

// classPage is what is shown of one class.
type classPage struct {
	Class   queue.Class
	Row     classRow
	Known   bool // the row is
	Stale   string
	Facts   []fact
	State   []vesselState
	Acts    classActs
	Said    []notice
	Span    queue.Span
	Spans   []spanLink
	Table   []pointRow
	Charts  string // where the data of the charts is
	Vessels []vessel
	Of      int
	Buckets bucketTable
	Changes []changeRow
	changed string // the last change that is known of
}

// fact is a word and what it is.
type fact struct{ ID, Name, Text string }

type spanLink struct {
	URL, Text string
	Here      bool
}

// class shows how a class stands and fared.
func (p *Pages) class(w http.ResponseWriter, r *http.Request) error {
	return p.showClass(w, r, http.StatusOK, r.URL.Query().Get("name"), said(r))
}

func (p *Pages) showClass(w http.ResponseWriter, r *http.Request, status int, name string, notices []notice) error {
	ctx := r.Context()
	class, err := p.Desk.Class(ctx, name)
	if err != nil {
		return err
	}
	picture := p.Live.Now(ctx)
	p.Live.Swept(ctx, sweptWait)
	content := p.lookClass(ctx, class, picture)
	content.Vessels = p.readVessels(ctx, content.Vessels)
	content.Said = notices
	content.Acts = p.actsOnClass(access.From(ctx), class, content.Row)
	content.Acts.Hold.typed(r)
	if err := content.read(ctx, p, r.URL.Query()); err != nil {
		return err
	}
	query := r.URL.Query()
	is := page{
		Title: "Class " + name, Here: "classes", Live: liveQuery("class", content.parts(), "name", name, "prefix", query.Get("prefix"), "after", query.Get("after")),
		Styles:  []string{"draw.css", "class.css", "changes.css", "vendor/uPlot.min.css"},
		Scripts: []string{"vendor/uPlot.iife.min.js", "class.js"}, Content: content,
	}
	if r.Method == http.MethodPost {
		is.At = p.url("/class", "name", name)
	}
	return p.show(w, r, status, "class", is)
}

// read reads what is not in memory, of the part that is asked for or of all.
func (c *classPage) read(ctx context.Context, p *Pages, query url.Values) error {
	shows := func(part string) bool { return query.Get("part") == "" || query.Get("part") == part }
	if shows("charts") {
		if err := c.readHistory(ctx, p, query.Get("span")); err != nil {
			return err
		}
	}
	var err error
	if shows("buckets") {
		if c.Buckets, err = p.bucketTable(ctx, c.Class, query); err != nil {
			return err
		}
	}
	if shows("history") {
		c.Changes, err = p.changesOf(ctx, c.Class.Name)
	}
	return err
}

// lookClass is how the class stands by now, out of memory.
func (p *Pages) lookClass(ctx context.Context, class queue.Class, picture *live.Picture) *classPage {
	now := time.Now()
	c := &classPage{Class: class, Stale: staleText(picture, now), State: closedBy(class, now), changed: p.Live.Changed(class.Name)}
	standing, known := picture.Class(class.Name)
	standing.Class = class.Name
	c.Row, c.Known = p.classRows([]live.Class{standing})[0], known
	c.Facts = c.Row.facts()
	choice := p.Live.Choose(live.Query{Sees: access.From(ctx).Classes, Class: class.Name, Limit: classVessels})
	c.Of = choice.Of
	c.Vessels = p.vessels(choice.Names)
	return c
}

// closedBy says what closes a class, with what it means.
func closedBy(class queue.Class, now time.Time) []vesselState {
	var list []vesselState
	if class.Paused {
		list = append(list, vesselState{Kind: "warn", Text: "paused", Why: "Nothing leaves until somebody resumes it."})
	}
	if class.Hold.After(now) {
		list = append(list, vesselState{
			Kind: "warn", Text: "held", Until: class.Hold.Format(queue.TimeFormat), Why: "It opens by itself. " + class.HoldReason,
		})
	}
	if class.Draining {
		list = append(list, vesselState{Kind: "warn", Text: "draining", Why: "It admits nothing, and what is there leaves at its rate."})
	}
	return list
}

// facts are the numbers at the head of the page.
func (c classRow) facts() []fact {
	return []fact{
		{c.ID + "-level", "Waiting", number(c.Level)},
		{c.ID + "-in", "In", c.InText()},
		{c.ID + "-out", "Out", c.OutText()},
		{c.ID + "-rejected", "Rejected", c.RejectedText()},
		{c.ID + "-oldest", "Oldest wait", c.OldestText()},
		{c.ID + "-outnow", "Running", number(c.Out)},
		{c.ID + "-dead", "Dead", number(c.Dead)},
		{c.ID + "-buckets", "Buckets", number(c.Buckets)},
	}
}

// readHistory reads the points of the table.
func (c *classPage) readHistory(ctx context.Context, p *Pages, span string) error {
	c.Span = spanOf(span)
	for _, s := range []queue.Span{queue.Recent, queue.Day} {
		c.Spans = append(c.Spans, spanLink{p.url("/class", "name", c.Class.Name, "span", string(s)), spanText(s), s == c.Span})
	}
	c.Charts = p.url("/charts/class", "name", c.Class.Name, "span", string(c.Span))
	h, err := p.Desk.Client().History(ctx, c.Class.Name, c.Span)
	c.Table = pointRows(h)
	return err
}

func spanOf(text string) queue.Span {
	if text == string(queue.Day) {
		return queue.Day
	}
	return queue.Recent
}

func spanText(s queue.Span) string {
	if s == queue.Day {
		return "24 hours"
	}
	return "15 minutes"
}

// bucketTable is a page of all buckets of a class.
type bucketTable struct {
	Prefix, Next, First string
	Rows                []bucketRow
}

type bucketRow struct {
	vessel
	Leaves time.Time // zero when that is now, or nobody can tell
	Due    string    // in words, then
}

// version changes when the table looks different.
func (t bucketTable) version() string {
	var b strings.Builder
	for _, row := range t.Rows {
		fmt.Fprintln(&b, row.Key, row.Level, row.Capacity, row.State, row.Due, row.Leaves.Unix())
	}
	return b.String()
}

// bucketTable reads one page, bounded however many there are.
func (p *Pages) bucketTable(ctx context.Context, class queue.Class, q url.Values) (bucketTable, error) {
	t := bucketTable{Prefix: q.Get("prefix")}
	list, next, err := p.Desk.Client().Buckets().Page(ctx, queue.BucketQuery{
		Class: class.Name, Prefix: t.Prefix, After: q.Get("after"), Limit: bucketsPage,
	})
	if err != nil {
		return t, err
	}
	pairs := []string{"name", class.Name, "prefix", t.Prefix, "span", q.Get("span")}
	if next != "" {
		t.Next = p.url("/class", append(pairs, "after", next)...) + "#buckets"
	}
	if q.Get("after") != "" {
		t.First = p.url("/class", pairs...) + "#buckets"
	}
	for _, b := range list {
		v := p.vessel(b.Name(), live.Bucket{Bucket: b, Read: true})
		row := bucketRow{vessel: v}
		row.Leaves, row.Due = nextLeaves(b)
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

// nextLeaves is when a bucket lets its next job go; in words where that is no time to come.
func nextLeaves(b queue.Bucket) (time.Time, string) {
	start := b.StartOf(1)
	switch {
	case b.Line == 0 || start.IsZero() || b.Sick != "":
		return time.Time{}, "–"
	case start.After(b.At):
		return start, ""
	}
	return time.Time{}, "now"
}

// tableEvery is the time between two looks at the table of buckets.
const tableEvery = 5 * time.Second

// liveClass keeps the page live.
func (p *Pages) liveClass(r *http.Request) (func(context.Context) (frame, error), error) {
	name := r.URL.Query().Get("name")
	class, err := p.Desk.Class(r.Context(), name)
	if err != nil {
		return nil, err
	}
	looks, query := 0, r.URL.Query()
	table := slowly(tableEvery, func(ctx context.Context) (frame, error) {
		t, err := p.bucketTable(ctx, class, query)
		return frame{Parts: map[string]string{"buckets": t.version()}}, err
	})
	return func(ctx context.Context) (frame, error) {
		picture := p.Live.Now(ctx)
		if why := staleText(picture, time.Now()); why != "" {
			return frame{}, staleError(why)
		}
		if looks%looksASecond == 0 && looks > 0 {
			if class, err = p.Desk.Class(ctx, name); err != nil { // one command a second: an operator closes and opens it
				return frame{}, err
			}
		}
		looks++
		buckets, err := table(ctx)
		if err != nil {
			return frame{}, err
		}
		f := p.lookClass(ctx, class, picture).frame()
		f.Parts["buckets"] = buckets.Parts["buckets"]
		return f, nil
	}, nil
}

func (c *classPage) frame() frame {
	f := frame{Patch: patch{}, Parts: c.parts()}
	for _, fact := range c.Facts {
		f.Patch[fact.ID] = map[string]string{"": fact.Text}
	}
	f.Patch["stale-notice"] = map[string]string{"hidden": hidden(c.Stale == "")}
	for _, v := range c.Vessels {
		v.patch(f.Patch, vessel{})
	}
	return f
}

// parts are the versions of what is listed.
func (c *classPage) parts() map[string]string {
	state := []string{strconv.FormatInt(c.Class.Version, 10)}
	for _, s := range c.State {
		state = append(state, s.Text, s.Until, s.Why)
	}
	names := make([]string, len(c.Vessels))
	for i, v := range c.Vessels {
		names[i] = v.name()
	}
	settings := strconv.FormatInt(c.Class.Version, 10)
	return map[string]string{
		"head": fmt.Sprint(strings.Join(state, ","), c.Class.Paused, c.Class.Draining, c.Class.Hold, c.Row.Level > 0), "vessels": vesselsVersion(names),
		"buckets": c.Buckets.version(), "settings": settings, "history": settings + c.changed,
	}
}
