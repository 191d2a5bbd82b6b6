package pages

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/queue"
)

const (
	deadPage = 50
	// deadLooked is how many dead jobs one page looks through for a text in their errors.
	deadLooked = 1000
	deadStep   = 100
	// deadGroups is how many kinds of errors are listed.
	deadGroups = 12
)

func (p *Pages) deadRoutes() {
	p.get("/dead", p.dead)
	p.deadDeeds()
	p.live["dead"] = p.liveDead
}

// deadClass is one class and what it has dead.
type deadClass struct {
	ID, Name string
	queue.Books
}

// deadList is what the page of the dead jobs of a class or bucket shows.
type deadList struct {
	Target  desk.Target
	Class   queue.Class
	Notices []notice
	Kept    int // of the whole class
	Groups  queue.DeadGroups
	At      time.Time // when it was listed
	Text    string    // what is looked for in errors
	Jobs    []queue.JobState
	Looked  int // jobs, for the text
	Next    string
	First   string
	Revival *revival
	Stop    *deed
	Acts    bool
	All     *deed
	Purge   *ask
	RetryTo string
	Again   string // where to list anew
}

// deadOverview is what the page shows without a class.
type deadOverview struct {
	Classes []deadClass
	Sum     int64
}

// dead shows which classes have dead jobs or, given a class, these jobs.
func (p *Pages) dead(w http.ResponseWriter, r *http.Request) error {
	if targetOf(r).Class == "" {
		return p.showDeadClasses(w, r)
	}
	return p.showDead(w, r, targetOf(r), http.StatusOK, said(r))
}

func (p *Pages) showDeadClasses(w http.ResponseWriter, r *http.Request) error {
	classes, err := p.deadClasses(r.Context())
	if err != nil {
		return err
	}
	content := deadOverview{Classes: classes, Sum: deadOf(classes)}
	return p.show(w, r, http.StatusOK, "deadclasses", page{
		Title: "Dead jobs", Here: "dead", Live: liveQuery("dead", content.parts()), Styles: []string{"jobs.css"}, Content: content,
	})
}

func deadOf(classes []deadClass) (sum int64) {
	for _, c := range classes {
		sum += c.DeadKept()
	}
	return sum
}

// parts is the version of which classes there are, and whether any of them has dead jobs.
func (o deadOverview) parts() map[string]string {
	names := make([]string, len(o.Classes))
	for i, c := range o.Classes {
		names[i] = c.Name
	}
	return map[string]string{"classes": fmt.Sprint(names, o.Sum > 0)}
}

// deadClasses are the classes that the person sees, by their books.
func (p *Pages) deadClasses(ctx context.Context) ([]deadClass, error) {
	all, err := p.Desk.Client().Standings(ctx)
	who := access.From(ctx)
	var list []deadClass
	for _, s := range all {
		if who.Sees(s.Class) {
			list = append(list, deadClass{safeID("dead", s.Class), s.Class, s.Books})
		}
	}
	return list, err
}

func (p *Pages) showDead(w http.ResponseWriter, r *http.Request, t desk.Target, status int, notices []notice) error {
	c := &deadList{Target: t, Notices: notices, Text: r.FormValue("text")}
	drawn := p.revivals.of(t.Class).parts() // before the lists are read: whatever goes meanwhile has them read again
	if err := p.readDead(r.Context(), c, r.URL.Query()); err != nil {
		return err
	}
	p.deadActs(access.From(r.Context()), c)
	is := page{
		Title: "Dead jobs of " + t.String(), Here: "dead", Styles: []string{"jobs.css"}, Content: c,
		Live: liveQuery("dead", listed(drawn, c.Kept), "class", t.Class, "key", t.Key),
	}
	if r.Method == http.MethodPost {
		is.At = c.Again
	}
	return p.show(w, r, status, "dead", is)
}

// listed are versions of what is listed, given those of a revival: it is listed again where the first died, or none is dead any more.
func listed(parts map[string]string, kept int) map[string]string {
	parts["list"] += fmt.Sprint(kept > 0)
	parts["acts"] = fmt.Sprint(parts["revival"], kept > 0)
	return parts
}

func (p *Pages) readDead(ctx context.Context, c *deadList, query url.Values) error {
	var err error
	if c.Class, err = p.Desk.Class(ctx, c.Target.Class); err != nil {
		return err
	}
	after := query.Get("after")
	c.At, c.Again = time.Now(), p.url("/dead", "class", c.Target.Class, "key", c.Target.Key, "text", c.Text)
	if part := query.Get("part"); part == "acts" || part == "revival" { // which list nothing
		c.Revival = p.revivals.of(c.Target.Class)
		c.Kept, err = p.Desk.Client().Dead().Count(ctx, c.Target.Class)
		return err
	}
	if c.Groups, err = p.Desk.Client().Dead().Groups(ctx, c.Target.Class, deadGroups); err != nil {
		return err
	}
	c.Kept = c.Groups.Kept
	c.Revival = p.revivals.of(c.Target.Class)
	next, err := p.findDead(ctx, c, after)
	pairs := []string{"class", c.Target.Class, "key", c.Target.Key, "text", c.Text}
	if next != "" {
		c.Next = p.url("/dead", append(pairs, "after", next)...)
	}
	if after != "" {
		c.First = p.url("/dead", pairs...)
	}
	return err
}

// findDead reads a page of dead jobs, newest first. For those with a text in their error it looks through a bounded number.
func (p *Pages) findDead(ctx context.Context, c *deadList, after string) (next string, err error) {
	q := queue.JobQuery{Class: c.Target.Class, Key: c.Target.Key, State: queue.Kept, After: after, Limit: deadPage}
	if c.Text == "" {
		c.Jobs, next, err = p.Desk.Client().JobPage(ctx, q)
		return next, err
	}
	q.Limit = deadStep
	for c.Looked < deadLooked && len(c.Jobs) < deadPage {
		jobs, next, err := p.Desk.Client().JobPage(ctx, q)
		if err != nil {
			return "", err
		}
		for _, j := range jobs {
			if strings.Contains(strings.ToLower(j.Error), strings.ToLower(c.Text)) {
				c.Jobs = append(c.Jobs, j)
			}
		}
		c.Looked += len(jobs)
		if q.After = next; next == "" {
			break
		}
	}
	return q.After, nil
}

func (p *Pages) deadActs(who access.Person, c *deadList) {
	if !who.May(access.Operator) {
		return
	}
	c.Acts, c.RetryTo = true, p.url("/dead/retry")
	running := c.Revival != nil && c.Revival.Running()
	if running {
		c.Stop = &deed{"dead-stop", p.url("/dead/stop"), "Stop", "", targetFields(c.Target)}
	}
	if c.Kept > 0 && !running {
		c.All = &deed{"dead-all", p.url("/dead/retry-all"), "Retry all, at the pace of their buckets", "main", targetFields(c.Target)}
	}
	if c.Kept > 0 && who.May(access.Admin) {
		purge := p.ask("Purge the dead…", "bad", "/dead/purge", "class", c.Target.Class, "key", c.Target.Key)
		c.Purge = &purge
	}
}

// liveDead keeps counts and the progress of a retry live. What is listed stands still, for who reads and ticks it.
func (p *Pages) liveDead(r *http.Request) (func(context.Context) (frame, error), error) {
	class := targetOf(r).Class
	if class == "" {
		return slowly(partEvery, p.deadFrame), nil
	}
	if _, err := p.Desk.Class(r.Context(), class); err != nil {
		return nil, err
	}
	n := 0
	kept := slowly(partEvery, func(ctx context.Context) (f frame, err error) {
		n, err = p.Desk.Client().Dead().Count(ctx, class)
		return frame{Patch: patch{"dead-kept": {"": number(n)}}}, err
	})
	return func(ctx context.Context) (frame, error) {
		f, err := kept(ctx)
		if err != nil {
			return frame{}, err
		}
		out := frame{Patch: patch{"dead-kept": f.Patch["dead-kept"]}, Parts: nil}
		run := p.revivals.of(class)
		if out.Parts = listed(run.parts(), n); run != nil {
			out.Patch["revival-bar"] = map[string]string{"value": fmt.Sprint(run.Retried), "max": fmt.Sprint(run.Most())}
			out.Patch["revival-retried"] = map[string]string{"": number(run.Retried)}
			out.Patch["revival-left"] = map[string]string{"": number(run.Left)}
		}
		return out, nil
	}, nil
}

// deadFrame is what all classes have dead by now.
func (p *Pages) deadFrame(ctx context.Context) (frame, error) {
	classes, err := p.deadClasses(ctx)
	f := frame{Patch: patch{}, Parts: deadOverview{classes, deadOf(classes)}.parts()}
	for _, c := range classes {
		f.Patch[c.ID] = map[string]string{"": number(c.DeadKept())}
		f.Patch[c.ID+"-total"] = map[string]string{"": number(c.Dead)}
		f.Patch[c.ID+"-revived"] = map[string]string{"": number(c.Revived)}
		f.Patch[c.ID+"-dropped"] = map[string]string{"": number(c.DeadDropped)}
		f.Patch[c.ID+"-purged"] = map[string]string{"": number(c.DeadPurged)}
	}
	return f, err
}

// Ago is how long ago a time was, for a list that stands still.
func (c *deadList) Ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return shortDuration(time.Since(t)) + " ago"
}
