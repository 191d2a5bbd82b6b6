package pages

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/queue"
)

const (
	// linePage is how many jobs of a line a page lists, laterPage how many of those that are delayed or parked.
	linePage  = 50
	laterPage = 20
)

func (p *Pages) bucketRoutes() {
	p.get("/bucket", p.bucket)
	p.bucketDeeds()
	p.live["bucket"] = p.liveBucket
}

// bucketPage is what the page of one bucket shows.
type bucketPage struct {
	Target  desk.Target
	Notices []notice
	Vessel  vessel
	Bucket  queue.Bucket
	Class   queue.Class
	Verdict verdict
	Pace    pace
	Line    lineList
	Later   []queue.JobState
	More    bool // of those that are delayed or parked
	Acts    bucketActs
	Submits string // where to submit to it; empty for who may not
}

// lineList is one page of the line.
type lineList struct {
	Jobs  []lineJob
	Next  string // the URL of the next page
	First string // the URL of the first, when this is another one
	Acts  bool
}

// lineJob is a job in line. Start is when it leaves by what is known now, zero when nobody can tell.
type lineJob struct {
	queue.JobState
	Start  time.Time
	Waited time.Duration
	Cancel deed
}

// bucket shows one bucket.
func (p *Pages) bucket(w http.ResponseWriter, r *http.Request) error {
	return p.showBucket(w, r, targetOf(r), http.StatusOK, said(r))
}

func (p *Pages) showBucket(w http.ResponseWriter, r *http.Request, t desk.Target, status int, notices []notice) error {
	content, err := p.readBucket(r.Context(), t, r.URL.Query())
	if err != nil {
		return err
	}
	content.Notices = notices
	content.Acts.Hold.typed(r)
	is := page{
		Title: "Bucket " + t.String(), Styles: []string{"draw.css", "jobs.css"}, Content: content,
		Live: liveQuery("bucket", content.parts(), "class", t.Class, "key", t.Key, "after", r.URL.Query().Get("after")),
	}
	if r.Method == http.MethodPost {
		is.At = p.url("/bucket", "class", t.Class, "key", t.Key)
	}
	return p.show(w, r, status, "bucket", is)
}

// readBucket reads what the page shows, or the part of it that is asked for: a few bounded lists.
func (p *Pages) readBucket(ctx context.Context, t desk.Target, query url.Values) (*bucketPage, error) {
	shows := func(part string) bool { return query.Get("part") == "" || query.Get("part") == part }
	c := &bucketPage{Target: t}
	var err error
	if c.Class, c.Bucket, err = p.bucketNow(ctx, t); err != nil {
		return nil, err
	}
	c.Vessel = p.vesselOf(c.Bucket)
	c.Verdict = judgeVessel(c.Class, c.Bucket, c.Vessel)
	if shows("ruler") {
		if c.Pace, err = p.paceOf(ctx, c.Class, c.Bucket); err != nil {
			return nil, err
		}
	}
	if shows("line") {
		if err := p.readLine(ctx, c, query.Get("after")); err != nil {
			return nil, err
		}
	}
	who := access.From(ctx)
	c.Acts = p.actsOn(who, c.Class, c.Bucket)
	if who.May(access.Operator) {
		c.Submits = p.url("/submit", "class", t.Class, "key", t.Key)
	}
	return c, nil
}

// vesselOf is a bucket that was just read, with what was seen of it over the last seconds, if anybody looked.
func (p *Pages) vesselOf(b queue.Bucket) vessel {
	seen := p.Live.Buckets([]string{b.Name()})[0]
	seen.Bucket, seen.Read = b, true
	return p.vessel(b.Name(), seen)
}

// bucketNow reads one bucket and its class, if the person sees it.
func (p *Pages) bucketNow(ctx context.Context, t desk.Target) (class queue.Class, b queue.Bucket, err error) {
	if class, err = p.Desk.Class(ctx, t.Class); err != nil {
		return class, b, err
	}
	b, err = p.Desk.Client().Buckets().Get(ctx, t.Class, t.Key)
	return class, b, err
}

func (p *Pages) readLine(ctx context.Context, c *bucketPage, after string) error {
	operates := access.From(ctx).May(access.Operator)
	query := queue.JobQuery{Class: c.Target.Class, Key: c.Target.Key, State: queue.Line, After: after, Limit: linePage}
	jobs, next, err := p.Desk.Client().JobPage(ctx, query)
	if err != nil {
		return err
	}
	c.Line.Acts = operates
	for _, j := range jobs {
		c.Line.Jobs = append(c.Line.Jobs, lineJob{
			JobState: j, Start: c.Bucket.StartOf(j.Position), Waited: c.Bucket.At.Sub(j.AdmittedAt),
			Cancel: p.cancelDeed(j),
		})
	}
	if next != "" {
		c.Line.Next = p.url("/bucket", "class", c.Target.Class, "key", c.Target.Key, "after", next)
	}
	if after != "" {
		c.Line.First = p.url("/bucket", "class", c.Target.Class, "key", c.Target.Key)
	}
	if c.Bucket.Later > 0 {
		query.State, query.After, query.Limit = queue.Later, "", laterPage
		if c.Later, next, err = p.Desk.Client().JobPage(ctx, query); err != nil {
			return err
		}
		c.More = next != ""
	}
	return nil
}

// cancelDeed ends one job of a bucket's line and comes back to the bucket.
func (p *Pages) cancelDeed(j queue.JobState) deed {
	return deed{URL: p.url("/job/cancel"), Label: "Cancel", Fields: []field{{"ref", j.Ref}, {"class", j.Class}, {"key", j.Key}}}
}

// RetryAfter is what a submission would be told to wait now; empty when there is room.
func (c *bucketPage) RetryAfter() string {
	wait, known := retryAfter(c.Bucket)
	switch {
	case c.Bucket.Level < c.Bucket.Capacity:
		return ""
	case !known:
		return "nobody can tell, while it is paused"
	}
	return shortDuration(wait)
}

// Empties is how long it takes until the line is empty, if nothing more comes; empty when nobody can tell.
func (c *bucketPage) Empties() string {
	last := c.Bucket.StartOf(c.Bucket.Line)
	if c.Bucket.Line == 0 || last.IsZero() {
		return ""
	}
	return shortDuration(max(0, last.Sub(c.Bucket.At)))
}
