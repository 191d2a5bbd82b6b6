package pages

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/queue"
)

func (p *Pages) workersRoutes() {
	p.get("/workers", p.workers)
	p.live["workers"] = p.liveWorkers
}

// lateBeat is how long ago a worker's report may be: it tells of itself every 5 s.
const lateBeat = 8 * time.Second

// workerRow is one worker, and what is the matter with it.
type workerRow struct {
	queue.Worker
	ID   string
	Kind string // of a badge
	Word string // on it
	Say  string // what that means
}

// workersPage is what the page shows.
type workersPage struct {
	Workers     []workerRow
	Busy, Slots int
	Out         int
	Bad         int
	Shards      int
	Unserved    []string // classes that no worker serves
}

// workers shows who drains.
func (p *Pages) workers(w http.ResponseWriter, r *http.Request) error {
	content, err := p.readWorkers(r.Context())
	if err != nil {
		return err
	}
	return p.show(w, r, http.StatusOK, "workers", page{
		Title: "Workers", Here: "workers", Live: liveQuery("workers", content.parts()), Styles: []string{"jobs.css"}, Content: content,
	})
}

// readWorkers lists the workers, those with trouble first.
func (p *Pages) readWorkers(ctx context.Context) (*workersPage, error) {
	all, err := p.Desk.Client().Workers(ctx)
	if err != nil {
		return nil, err
	}
	c := &workersPage{Shards: p.Desk.Client().Shards()}
	who := access.From(ctx)
	for _, worker := range all {
		row := workerRow{Worker: worker, ID: safeID("w", worker.Name)}
		row.Kind, row.Word, row.Say = judgeWorker(worker, c.Shards)
		row.Classes = slices.DeleteFunc(slices.Clone(worker.Classes), func(class string) bool { return !who.Sees(class) })
		if len(worker.Classes) > 0 && len(row.Classes) == 0 {
			continue // it serves only what does not exist for the person
		}
		c.Workers = append(c.Workers, row)
		c.Busy, c.Slots, c.Out = c.Busy+worker.Busy, c.Slots+worker.Concurrency, c.Out+worker.Out
		if row.Kind == "bad" {
			c.Bad++
		}
	}
	slices.SortStableFunc(c.Workers, func(a, b workerRow) int {
		return cmp.Or(rank(a.Kind)-rank(b.Kind), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Name, b.Name))
	})
	c.Unserved, err = p.unserved(ctx, all)
	return c, err
}

func rank(kind string) int { return slices.Index([]string{"bad", "warn", "good"}, kind) }

// judgeWorker says whether a worker does its work.
func judgeWorker(w queue.Worker, shards int) (kind, word, say string) {
	switch {
	case w.Reported.IsZero():
		return "bad", "silent", "not heard of for 15 s or more: it is frozen, dead or cut off from Redis. After 10 s of silence others take over what it has out"
	case w.Age > lateBeat:
		return "bad", "silent", "frozen, or cut off from Redis: it should be heard of every 5 s"
	case len(w.Shards) < shards:
		return "warn", "starting", fmt.Sprintf("asks only %d of %d shards for work yet", len(w.Shards), shards)
	case w.Busy >= w.Concurrency:
		return "warn", "busy", "all slots are taken: what is due waits for one"
	}
	return "good", "works", ""
}

// unserved are the classes that nobody drains.
func (p *Pages) unserved(ctx context.Context, workers []queue.Worker) ([]string, error) {
	classes, err := p.Desk.Classes(ctx)
	var names []string
	for _, class := range classes {
		if !slices.ContainsFunc(workers, func(w queue.Worker) bool {
			return !w.Reported.IsZero() && (len(w.Classes) == 0 || slices.Contains(w.Classes, class.Name))
		}) {
			names = append(names, class.Name)
		}
	}
	return names, err
}

// Serves are the classes of the worker, in words.
func (w workerRow) Serves() string {
	switch {
	case w.Reported.IsZero():
		return "unknown"
	case len(w.Classes) == 0:
		return "all"
	}
	return strings.Join(w.Classes, ", ")
}

// Share of its slots that are taken, percent.
func (w workerRow) Share() int { return 100 * w.Busy / max(1, w.Concurrency) }

// Asks are the shards that it asks for work.
func (w workerRow) Asks() string {
	if len(w.Shards) == 0 {
		return "none"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(w.Shards), " ", ", "), "[]")
}

// liveWorkers keeps the page live: numbers by patches, who is there as a part.
func (p *Pages) liveWorkers(*http.Request) (func(context.Context) (frame, error), error) {
	return slowly(time.Second, func(ctx context.Context) (frame, error) {
		c, err := p.readWorkers(ctx)
		if err != nil {
			return frame{}, err
		}
		f := frame{Patch: patch{}, Parts: c.parts()}
		for _, w := range c.Workers {
			if w.Concurrency > 0 {
				f.Patch[w.ID+"-busy"] = map[string]string{"": fmt.Sprintf("%d of %d", w.Busy, w.Concurrency)}
				f.Patch[w.ID+"-bar"] = map[string]string{"value": fmt.Sprint(w.Busy), "max": fmt.Sprint(w.Concurrency)}
			}
			f.Patch[w.ID+"-out"] = map[string]string{"": number(w.Out)}
			f.Patch[w.ID+"-age"] = map[string]string{"": beatAge(w.Worker)}
		}
		f.Patch["workers-busy"] = map[string]string{"": number(c.Busy)}
		f.Patch["workers-out"] = map[string]string{"": number(c.Out)}
		return f, nil
	}), nil
}

// parts is the version of who is there, and who is missed.
func (c *workersPage) parts() map[string]string {
	versions := slices.Clone(c.Unserved)
	for _, w := range c.Workers {
		versions = append(versions, w.ID+w.Kind+w.Word+w.Serves()+w.Asks())
	}
	return map[string]string{"workers": strings.Join(versions, " ")}
}

// Beat is when it was last heard of.
func (w workerRow) Beat() string { return beatAge(w.Worker) }

func beatAge(w queue.Worker) string {
	if w.Reported.IsZero() {
		return "more than 15 s ago"
	}
	if w.Age < time.Second {
		return "just now"
	}
	return shortDuration(w.Age.Truncate(time.Second)) + " ago"
}
