package pages

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

func (p *Pages) jobRoutes() {
	p.get("/job", p.job)
	p.post("/job/cancel", p.cancelJob)
	p.post("/job/retry", p.retryJob)
	p.live["job"] = p.liveJob
}

// jobPage is what the page of one job shows.
type jobPage struct {
	queue.JobState
	Notices []notice
	Events  []happening
	Drawing template.HTML
	// Bucket that it waits in, and what keeps it there; nil for a job that does not wait.
	Bucket        *queue.Bucket
	Verdict       verdict
	Start         time.Time // estimated from now; zero when nobody can tell
	PayloadBody   body
	ResultBody    body
	Copies        copies
	Cancel, Retry *deed
	Now           time.Time
}

// job shows one job.
func (p *Pages) job(w http.ResponseWriter, r *http.Request) error {
	ref := r.URL.Query().Get("ref")
	err := p.showJob(w, r, ref, http.StatusOK, said(r))
	if errors.Is(err, queue.ErrNotFound) && r.URL.Query().Get("part") != "" { // it ended while somebody looks at it
		return p.show(w, r, http.StatusOK, "jobgone", page{Live: liveQuery("job", goneParts(), "ref", ref)})
	}
	return err
}

func (p *Pages) showJob(w http.ResponseWriter, r *http.Request, ref string, status int, notices []notice) error {
	content, err := p.readJob(r.Context(), ref)
	if err != nil {
		return err
	}
	content.Notices = notices
	content.PayloadBody, content.ResultBody = bodyOf(content.Payload), bodyOf(content.Result)
	content.Copies = copiesOf(content.JobState, content.PayloadBody, p.api(r))
	p.jobDeeds(access.From(r.Context()), content)
	is := page{
		Title: "Job " + content.ID, Styles: []string{"jobs.css"}, Content: content,
		Live: liveQuery("job", content.parts(), "ref", ref), // also of one that ended: somebody else may send it round again
	}
	if r.Method == http.MethodPost {
		is.At = p.url("/job", "ref", ref)
	}
	return p.show(w, r, status, "job", is)
}

// readJob reads a job, and for one that waits what its bucket does.
func (p *Pages) readJob(ctx context.Context, ref string) (*jobPage, error) {
	j, err := p.Desk.Job(ctx, ref)
	if err != nil {
		return nil, err
	}
	now, err := p.Desk.Client().Now(ctx)
	if err != nil {
		return nil, err
	}
	content := &jobPage{JobState: j, Now: now}
	if j.State == queue.Line || j.State == queue.Later {
		if err := content.waits(ctx, p); err != nil {
			return nil, err
		}
	}
	content.Events = life(j, now)
	content.Drawing = timeline(j, content.Events, now).SVG()
	return content, nil
}

// waits reads what keeps the job.
func (c *jobPage) waits(ctx context.Context, p *Pages) error {
	class, err := p.Desk.Class(ctx, c.Class)
	if errors.Is(err, queue.ErrUnknownClass) { // a class can be removed while a job of it is looked at
		return nil
	}
	if err != nil {
		return err
	}
	b, err := p.Desk.Client().Buckets().Get(ctx, c.Class, c.Key)
	if err != nil {
		return err
	}
	c.Bucket, c.Verdict = &b, judge(class, b)
	if c.State == queue.Line {
		c.Start = b.StartOf(c.Position)
	}
	return nil
}

func (p *Pages) jobDeeds(who access.Person, c *jobPage) {
	if !who.May(access.Operator) {
		return
	}
	ref := []field{{"ref", c.Ref}}
	if !ended(c.State) && !c.Cancelling {
		c.Cancel = &deed{"job-cancel", p.url("/job/cancel"), "Cancel this job", "bad", ref}
	}
	if c.State == queue.Kept {
		c.Retry = &deed{"job-retry", p.url("/job/retry"), "Retry: send it round again", "main", ref}
	}
}

// api is the address of the HTTP API, as the browser reached us.
func (p *Pages) api(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + p.Base + "/v1/jobs"
}

func (p *Pages) cancelJob(w http.ResponseWriter, r *http.Request) error {
	ref := r.PostFormValue("ref")
	state, err := p.Desk.Cancel(r.Context(), ref)
	back := targetOf(r)
	if err != nil {
		if back.Key != "" && !errors.Is(err, queue.ErrNotFound) {
			return p.bucketRefusal(w, r, back, err)
		}
		return p.showJobRefusal(w, r, ref, err)
	}
	what := "cancelled"
	if state == queue.Out {
		what = "told"
	}
	// A job that waited is gone at once unless its class keeps it: then there is only its bucket to go back to.
	if back.Key != "" {
		return p.done(w, r, what, "/bucket", "class", back.Class, "key", back.Key)
	}
	return p.done(w, r, what, "/job", "ref", ref)
}

func (p *Pages) retryJob(w http.ResponseWriter, r *http.Request) error {
	ref := r.PostFormValue("ref")
	if _, err := p.Desk.Retry(r.Context(), ref); err != nil {
		return p.showJobRefusal(w, r, ref, err)
	}
	return p.done(w, r, "retried", "/job", "ref", ref)
}

// showJobRefusal shows the job again, with why that was not done.
func (p *Pages) showJobRefusal(w http.ResponseWriter, r *http.Request, ref string, err error) error {
	if errors.Is(err, access.ErrDenied) || errors.Is(err, queue.ErrNotFound) {
		return err
	}
	return p.showJob(w, r, ref, statusOf(err), []notice{{"bad", wire.Public(err).Error()}})
}

// liveJob keeps the page of a job live: what happens to it is a new part, its place in line a patch.
func (p *Pages) liveJob(r *http.Request) (func(context.Context) (frame, error), error) {
	ref := r.URL.Query().Get("ref")
	if _, err := p.Desk.Job(r.Context(), ref); err != nil && !errors.Is(err, queue.ErrNotFound) {
		return nil, err
	}
	return slowly(time.Second, func(ctx context.Context) (frame, error) {
		c, err := p.readJob(ctx, ref)
		if errors.Is(err, queue.ErrNotFound) { // it ended, and its class keeps nothing
			return frame{Parts: goneParts()}, nil
		}
		if err != nil {
			return frame{}, err
		}
		f := frame{Parts: c.parts(), Patch: patch{}}
		if c.State == queue.Line {
			f.Patch["job-position"] = map[string]string{"": number(c.Position)}
			f.Patch["job-start"] = startPatch(c.Start)
		}
		return f, nil
	}), nil
}

// parts are the versions of what the page shows of its life, and of what came of it.
func (c *jobPage) parts() map[string]string {
	clock := int64(0)
	if !ended(c.State) { // how long it has run or waited
		clock = c.Now.Unix() / 5
	}
	return map[string]string{
		"life":   fmt.Sprint(c.State, c.Attempts, c.GivenBack, c.Cancelling, c.DepartedAt, c.NotBefore, c.Verdict.Title, clock),
		"result": fmt.Sprint(c.State, c.EndedAt),
	}
}

// goneParts are those of a job of which nothing is kept.
func goneParts() map[string]string { return map[string]string{"life": "gone", "result": "gone"} }

// startPatch is an estimated start as an element of time shows it.
func startPatch(t time.Time) map[string]string {
	if t.IsZero() {
		return map[string]string{"": "nobody can tell", "data-until": ""}
	}
	return map[string]string{"data-until": t.UTC().Format(queue.TimeFormat), "title": t.UTC().Format(queue.TimeFormat)}
}
