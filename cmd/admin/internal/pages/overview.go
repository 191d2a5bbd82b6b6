package pages

import (
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/live"
	"github.com/spout-queue/spout/cmd/internal/wire"
)

func (p *Pages) overviewRoutes() {
	p.get("/{$}", p.overview)
	p.get("/at", p.cell)
	p.live["overview"] = p.liveOverview
}

const (
	vesselsUsual = 24
	vesselsMost  = 50
	// sweptWait is how long a page waits for the first sweep: a small installation is whole at once.
	sweptWait = 10 * time.Millisecond
	// gridLeast is how many more buckets than are drawn there must be for a grid.
	gridLeast = 1
)

// overviewPage is what the overview shows.
type overviewPage struct {
	Stale     string // why, when nothing could be read
	Strip     strip
	Attention []attention
	Classes   []classRow
	Filter    filter
	Vessels   []vessel
	Of        int
	Grid      *gridPart
}

// filter is which buckets are drawn, and how many.
type filter struct {
	Class, Prefix, Sort string
	Limit               int
}

func readFilter(r *http.Request) filter {
	q := r.URL.Query()
	f := filter{Class: q.Get("class"), Prefix: q.Get("prefix"), Sort: q.Get("sort"), Limit: vesselsUsual}
	if n, err := strconv.Atoi(q.Get("show")); err == nil {
		f.Limit = min(max(1, n), vesselsMost)
	}
	if !slices.Contains([]string{"level", "wait", "name"}, f.Sort) {
		f.Sort = ""
	}
	return f
}

// query is the filter as package live asks, for who asks here.
func (f filter) query(person access.Person) live.Query {
	return live.Query{Sees: person.Classes, Class: f.Class, Prefix: f.Prefix, Sort: f.Sort, Limit: f.Limit}
}

// pairs of the filter, for a URL.
func (f filter) pairs() []string {
	show := ""
	if f.Limit != vesselsUsual {
		show = strconv.Itoa(f.Limit)
	}
	return []string{"class", f.Class, "prefix", f.Prefix, "sort", f.Sort, "show", show}
}

// overview shows what is wrong, the classes and the fullest buckets.
func (p *Pages) overview(w http.ResponseWriter, r *http.Request) error {
	f := readFilter(r)
	picture := p.Live.Now(r.Context())
	p.Live.Swept(r.Context(), sweptWait)
	content := p.lookOverview(r.Context(), f, picture)
	content.Grid = p.grid(r.Context(), f, content)
	content.Vessels = p.readVessels(r.Context(), content.Vessels) // a page without scripts shows them too
	return p.show(w, r, http.StatusOK, "overview", page{
		Title: "Overview", Here: "overview", Live: liveQuery("overview", content.parts(), f.pairs()...),
		Styles: []string{"draw.css", "overview.css"}, Scripts: []string{"overview.js"}, Content: content,
	})
}

// lookOverview is the whole page as it is by now. It reads memory only.
func (p *Pages) lookOverview(ctx context.Context, f filter, picture *live.Picture) *overviewPage {
	now, person := time.Now(), access.From(ctx)
	o := &overviewPage{Filter: f, Stale: staleText(picture, now)}
	classes := seen(picture.Classes, person)
	o.Strip = newStrip(picture, classes, now)
	o.Attention = p.attentions(picture, classes, p.Live.Troubles())
	o.Classes = p.classRows(classes)
	choice := p.Live.Choose(f.query(person))
	o.Of = choice.Of
	o.Vessels = p.vessels(choice.Names)
	return o
}

// grid of the buckets, where more of them are than are drawn.
func (p *Pages) grid(ctx context.Context, f filter, o *overviewPage) *gridPart {
	if o.Of < len(o.Vessels)+gridLeast {
		return nil
	}
	return newGridPart(p.Live.Grid(f.query(access.From(ctx))))
}

// seen are the classes that a person sees.
func seen(classes []live.Class, person access.Person) []live.Class {
	var list []live.Class
	for _, c := range classes {
		if person.Sees(c.Class) {
			list = append(list, c)
		}
	}
	return list
}

// staleText tells why the numbers stand still, empty when they do not.
func staleText(picture *live.Picture, now time.Time) string {
	age, stale := picture.Stale(now)
	switch {
	case !stale:
		return ""
	case picture.At.IsZero() && picture.Err == nil:
		return "Nothing has been read from Redis yet."
	case picture.At.IsZero():
		return "Redis could not be read: " + wire.Public(picture.Err).Error()
	case picture.Err == nil:
		return "Nothing was read from Redis for " + shortDuration(age) + "."
	}
	return "Redis could not be read for " + shortDuration(age) + "; what is shown is as of " + picture.At.UTC().Format(time.TimeOnly) + " UTC. " + wire.Public(picture.Err).Error()
}

// liveOverview keeps the overview live: the drawings of buckets four times a second, the rest once.
func (p *Pages) liveOverview(r *http.Request) (func(context.Context) (frame, error), error) {
	f, person := readFilter(r), access.From(r.Context())
	var slow frame
	var grid *gridPart
	var shown map[string]vessel
	looks := 0
	return func(ctx context.Context) (frame, error) {
		picture := p.Live.Now(ctx)
		if why := staleText(picture, time.Now()); why != "" {
			return frame{}, staleError(why)
		}
		if looks%looksASecond == 0 {
			o := p.lookOverview(ctx, f, picture)
			o.Grid = p.grid(ctx, f, o)
			slow = o.frame()
			o.Grid.patch(slow.Patch, grid)
			grid = o.Grid
		}
		choice := p.Live.Choose(f.query(person))
		now := frame{Patch: patch{}, Parts: slow.Parts}
		now.Parts["buckets"] = vesselsVersion(choice.Names)
		now.Patch.add(slow.Patch)
		drawn := make(map[string]vessel, len(choice.Names))
		for _, v := range p.vessels(choice.Names) {
			was := shown[v.ID]
			if v.Label = was.Label; was.State != v.State || looks%looksASecond == 0 { // whoever listens is told more seldom
				v.Label = v.label()
			}
			v.patch(now.Patch, was)
			drawn[v.ID] = v
		}
		shown = drawn
		looks++
		return now, nil
	}, nil
}

// looksASecond of a live view.
const looksASecond = int(time.Second / streamEvery)

type staleError string

func (e staleError) Error() string { return string(e) }

// parts are the versions of what is listed.
func (o *overviewPage) parts() map[string]string {
	names := make([]string, len(o.Vessels))
	for i, v := range o.Vessels {
		names[i] = v.name()
	}
	classes := make([]string, len(o.Classes))
	for i, c := range o.Classes {
		classes[i] = c.Standing.Class
	}
	return map[string]string{
		"attention": attentionVersion(o.Attention), "classes": rowsVersion(o.Classes), "grid": o.Grid.version(), "buckets": vesselsVersion(names),
		"filter": strings.Join(classes, ","), // what there is to choose from
	}
}

// vesselsVersion changes when other buckets are drawn, or in another order.
func vesselsVersion(names []string) string { return strings.Join(names, "\x00") }

// frame is what of the page changes slowly.
func (o *overviewPage) frame() frame {
	f := frame{Patch: patch{}, Parts: o.parts()}
	o.Strip.patch(f.Patch)
	for _, c := range o.Classes {
		c.patch(f.Patch)
	}
	f.Patch["stale-notice"] = map[string]string{"hidden": hidden(o.Stale == "")}
	f.Patch["of"] = map[string]string{"": number(o.Of)}
	return f
}

// add takes over what another patch says. What both name is of the other.
func (p patch) add(other map[string]map[string]string) {
	maps.Copy(p, other)
}

// cell goes to the bucket in a place of the grid or, where that is asked, tells in words what is there.
func (p *Pages) cell(w http.ResponseWriter, r *http.Request) error {
	slot, err := strconv.Atoi(r.URL.Query().Get("cell"))
	if err != nil {
		return errNoPage
	}
	b, ok := p.Live.At(readFilter(r).query(access.From(r.Context())), slot)
	if r.URL.Query().Has("tell") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, placeText(b, ok)) //nolint:gosec // plain text, which no browser takes for anything else
		return nil
	}
	if !ok {
		http.Redirect(w, r, p.url("/"), http.StatusSeeOther)
		return nil
	}
	http.Redirect(w, r, p.url("/bucket", "class", b.Class, "key", b.Key), http.StatusSeeOther)
	return nil
}
