package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/queue"
)

// submitMost bounds the form: the largest payload there is, written as a form writes it, and the rest.
const submitMost = 4 * queue.MaxPayload

func (p *Pages) submitRoutes() {
	p.get("/submit", p.submitForm)
	p.post("/submit", p.submit)
	p.live["submit"] = p.liveSubmit
}

// submitView is what the page shows: the form, and what became of it or of a job that was submitted before.
type submitView struct {
	Form    jobForm
	Classes []queue.Class
	Job     *submitted
	Batch   *batch
	Refusal *refusal
}

var errBadForm = fmt.Errorf("%w: the form cannot be read", queue.ErrInvalid)

// submitForm shows the form: empty, or filled in with what a link names, and the job that was just submitted.
func (p *Pages) submitForm(w http.ResponseWriter, r *http.Request) error {
	if err := access.From(r.Context()).Check(access.Operator); err != nil {
		return err
	}
	query := r.URL.Query()
	view := submitView{Form: newJobForm(query.Get("class"), query.Get("key"))}
	live := ""
	if ref := query.Get("ref"); ref != "" {
		var err error
		if view.Job, err = p.follow(r.Context(), ref); err != nil {
			return err
		}
		if view.Job.Gone {
			view.Job.Class, view.Job.Key = view.Form.Class, view.Form.Key
		}
		view.Job.Again = query.Get("status") == string(queue.Duplicate)
		live = liveOf(view.Job)
	}
	return p.showSubmit(w, r, http.StatusOK, view, live)
}

// liveOf is the stream that follows a job as the page shows it.
func liveOf(job *submitted) string {
	return liveQuery("submit", map[string]string{"job": job.version()}, "ref", job.Ref)
}

func (p *Pages) showSubmit(w http.ResponseWriter, r *http.Request, status int, view submitView, live string) error {
	var err error
	// What somebody wrote is shown again also while there are no classes to choose from.
	if view.Classes, err = p.Desk.Classes(r.Context()); err != nil && (r.Method == http.MethodGet || !errors.Is(err, queue.ErrUnavailable)) {
		return err
	}
	is := page{Title: "Submit", Here: "submit", Live: live, Styles: []string{"submit.css"}, Scripts: []string{"submit.js"}, Content: view}
	if r.Method == http.MethodPost && view.Job != nil {
		is.At = p.url("/submit", "class", view.Form.Class, "key", view.Form.Key, "ref", view.Job.Ref)
	}
	return p.show(w, r, partial(r, status), "submit", is)
}

// submit puts the job of the form into its bucket. One job leads to a page that shows what becomes of it; that page can be
// loaded again without submitting anything.
func (p *Pages) submit(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, submitMost)
	if err := r.ParseForm(); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return queue.ErrTooLarge
		}
		return errBadForm
	}
	form := readJobForm(r)
	job, times := form.job(time.Now())
	if len(form.Wrong) > 0 {
		return p.showSubmit(w, r, http.StatusBadRequest, submitView{Form: form}, "")
	}
	if times > 1 {
		return p.submitMany(w, r, form, job, times)
	}
	receipt, err := p.Desk.Submit(r.Context(), job)
	if err != nil {
		return p.refuse(w, r, form, err)
	}
	here := p.url("/submit", "class", job.Class, "key", job.Key, "ref", receipt.Ref, "status", string(receipt.Status))
	if r.Header.Get("HX-Request") == "" {
		http.Redirect(w, r, here, http.StatusSeeOther)
		return nil
	}
	view := submitView{Form: form}
	view.Form.Once = newOnce()
	if view.Job, err = p.follow(r.Context(), receipt.Ref); err != nil {
		return err
	}
	view.Job.Again = receipt.Status == queue.Duplicate
	w.Header().Set("HX-Replace-Url", here)
	return p.showSubmit(w, r, http.StatusOK, view, liveOf(view.Job))
}

// refuse shows why a job was not admitted, and the form as it was.
func (p *Pages) refuse(w http.ResponseWriter, r *http.Request, form jobForm, err error) error {
	if errors.Is(err, access.ErrDenied) || answer.Reason(err) == "" {
		return err
	}
	view := submitView{Form: form}
	if field, text := form.blame(err); field != "" {
		view.Form.Wrong = map[string]string{field: text}
	}
	view.Refusal = refusalOf(err, time.Now())
	return p.showSubmit(w, r, statusOf(err), view, "")
}

// batch is what became of the same job, submitted several times.
type batch struct {
	Asked, Admitted, Duplicates int
	First, Last                 queue.Receipt // of those that were admitted
	Refused                     int
	Refusal                     *refusal // the first one
}

func (p *Pages) submitMany(w http.ResponseWriter, r *http.Request, form jobForm, job queue.Job, times int) error {
	jobs := make([]queue.Job, times)
	for i := range jobs {
		jobs[i] = job
		jobs[i].ID = job.ID + "-" + strconv.Itoa(i+1)
	}
	b := batch{Asked: times}
	for _, result := range p.Desk.SubmitMany(r.Context(), jobs) {
		if errors.Is(result.Err, access.ErrDenied) {
			return result.Err
		}
		b.add(result, time.Now())
	}
	if b.Admitted+b.Duplicates > 0 {
		form.Once = newOnce()
	}
	return p.showSubmit(w, r, http.StatusOK, submitView{Form: form, Batch: &b}, "")
}

func (b *batch) add(r queue.Result, now time.Time) {
	switch {
	case r.Err != nil:
		b.Refused++
		if b.Refusal == nil {
			b.Refusal = refusalOf(r.Err, now)
		}
		return
	case r.Receipt.Status == queue.Duplicate:
		b.Duplicates++
	default:
		b.Admitted++
	}
	if b.First.Ref == "" {
		b.First = r.Receipt
	}
	b.Last = r.Receipt
}

// followEvery is how often the state of a job is asked for.
const followEvery = time.Second

// liveSubmit has the tab fetch the job's state again when it is another one.
func (p *Pages) liveSubmit(r *http.Request) (func(context.Context) (frame, error), error) {
	ref := r.URL.Query().Get("ref")
	var asked time.Time
	var was frame
	return func(ctx context.Context) (frame, error) {
		if time.Since(asked) < followEvery {
			return was, nil
		}
		asked = time.Now()
		job, err := p.follow(ctx, ref)
		if err != nil {
			return frame{}, err
		}
		was = frame{
			Parts: map[string]string{"job": job.version()},
			Patch: patch{"part-job": {"data-state": string(job.State)}}, // so that the tab hears at once that it is live
		}
		return was, nil
	}, nil
}

// Drawing is where the last of them is.
func (b batch) Drawing() level { return newLevel(b.Last.Level, b.Last.Capacity, b.Last.Position) }
