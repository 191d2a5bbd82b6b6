package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/client"
	"github.com/spout-queue/spout/cmd/admin/internal/api"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// site is an installation, and a client of its API.
type site struct {
	t      *testing.T
	direct *queue.Client
	api    *client.Client
	outlet *queue.Outlet
}

func newSite(t *testing.T, rdb *redis.Client) *site {
	t.Helper()
	direct, err := queue.Open(t.Context(), rdb, queue.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handlerOf(direct))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL+"/spout", client.Options{HTTPClient: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return &site{t, direct, c, direct.Outlet("w1", 0)}
}

// handlerOf is the API of an installation, below /spout, for an admin.
func handlerOf(direct *queue.Client) http.Handler {
	log := slog.New(slog.DiscardHandler)
	handler := api.New(api.Options{Desk: desk.New(direct, "http", log), Base: "/spout", Log: log})
	me := access.Person{Name: "ann", Role: access.Admin}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(access.With(r.Context(), me)))
	})
}

func (s *site) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// same compares what the API tells with what Redis has.
func (s *site) same(want, got any, errs ...error) {
	s.t.Helper()
	untold := []cmp.Option{cmpopts.IgnoreFields(queue.Bucket{}, "At", "Interval"), cmpopts.IgnoreFields(queue.Worker{}, "Age")}
	if diff := cmp.Diff(want, got, untold...); diff != "" || errors.Join(errs...) != nil {
		s.t.Errorf("%v %s", errors.Join(errs...), diff)
	}
}

// end takes the one job that may depart, and says what became of it.
func (s *site) end(ref string, v queue.Verdict) {
	s.t.Helper()
	for range 1000 {
		got, err := s.outlet.Depart(s.t.Context(), queue.Ask{Want: 1})
		s.check(err)
		if len(got.Jobs) == 0 {
			<-time.After(time.Millisecond)
			continue
		}
		v.Ref, v.Stamp, v.Class, v.Due, v.Started = got.Jobs[0].Ref, got.Jobs[0].Stamp, got.Jobs[0].Class, got.Jobs[0].Due, got.Jobs[0].Due
		if v.Ref != ref {
			s.t.Fatalf("job %s departed, not %s", v.Ref, ref)
		}
		_, err = s.outlet.Settle(s.t.Context(), []queue.Verdict{v})
		s.check(err)
		return
	}
	s.t.Fatalf("job %s does not depart", ref)
}

func collect[T any](s *site, all func(func(T, error) bool)) []T {
	s.t.Helper()
	var list []T
	for one, err := range all {
		s.check(err)
		list = append(list, one)
	}
	return list
}

func TestTour(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		s := newSite(t, rdb)
		s.classes()
		s.buckets()
		s.jobs()
		s.dead()
		s.service()
	})
}

func mailClass() queue.Class {
	class := queue.NewClass("mail", 5, queue.Rate{Limit: 1000, Period: time.Second})
	class.Retention, class.MaxWait, class.Adapt = time.Hour, time.Minute, queue.Adapt{Min: queue.Rate{Limit: 1, Period: time.Second}}
	class.HTTP.Hosts, class.Retry.Order = []string{"api.example.com"}, queue.Tail
	return class
}

func (s *site) classes() {
	s.t.Helper()
	ctx, class := s.t.Context(), mailClass()
	plan, err := s.api.Diff(ctx, class)
	s.same(client.Plan{Change: "new"}, plan, err)
	stored, err := s.api.PutClassIf(ctx, class, 0)
	known, err2 := s.direct.Classes().Get(ctx, "mail")
	s.same(known, stored, err, err2)
	if _, err := s.api.PutClassIf(ctx, class, 0); !errors.Is(err, queue.ErrConflict) {
		s.t.Errorf("a class that is there is made anew: %v", err)
	}
	class.Capacity = 3
	plan, err = s.api.Diff(ctx, class)
	s.same(client.Plan{Change: "changed", Fields: []client.SettingChange{{Field: "capacity", Old: "5", New: "3"}}, Version: 1}, plan, err)
	if _, err := s.api.PutClassIf(ctx, class, 7); !errors.Is(err, queue.ErrConflict) {
		s.t.Errorf("a version that it has not: %v", err)
	}
	stored, err = s.api.PutClassIf(ctx, class, 1)
	s.same(int64(2), stored.Version, err)
	class.Capacity = 4
	stored, err = s.api.PutClass(ctx, class)
	s.same(int64(3), stored.Version, err)
	got, err := s.api.Class(ctx, "mail")
	known, err2 = s.direct.Classes().Get(ctx, "mail")
	s.same(client.Class{Class: known}, got, err, err2)
	all, err := s.api.Classes(ctx)
	s.same([]client.Class{{Class: known}}, all, err)
	if _, err := s.api.Class(ctx, "sms"); !errors.Is(err, queue.ErrUnknownClass) {
		s.t.Error(err)
	}
}

// hostile are keys that a path would not survive.
func hostile() []string { return []string{"a/b", "..", "a%2Fb?c#d", "日本 <b>&amp;", "+", "\"'"} }

func (s *site) buckets() {
	s.t.Helper()
	ctx := s.t.Context()
	for _, key := range hostile() {
		receipt, err := s.api.Submit(ctx, queue.Job{Class: "mail", Key: key, Payload: []byte(`{"html":"<&>"}`)})
		s.check(err)
		job, err := s.direct.Job(ctx, receipt.Ref)
		s.same(`{"html":"<&>"}`, string(job.Payload), err)
		read, err := s.api.Job(ctx, receipt.Ref)
		s.same(job, read, err)
		for _, do := range []func() error{
			func() error { return last(s.api.Pause(ctx, "mail", key)) },
			func() error { return last(s.api.Drain(ctx, "mail", key)) },
			func() error { return last(s.api.Hold(ctx, "mail", key, time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC))) },
			func() error { return last(s.api.HoldFor(ctx, "mail", key, time.Hour)) },
			func() error { return last(s.api.Unhold(ctx, "mail", key)) },
			func() error { return last(s.api.Resume(ctx, "mail", key)) },
		} {
			before, err := s.direct.Buckets().Get(ctx, "mail", key)
			s.check(err)
			s.check(do())
			got, err := s.api.Bucket(ctx, "mail", key)
			known, err2 := s.direct.Buckets().Get(ctx, "mail", key)
			s.same(known, got, err, err2)
			if cmp.Equal(before, got, cmpopts.IgnoreFields(queue.Bucket{}, "At", "Interval")) {
				s.t.Errorf("%q stays as it was: %+v", key, got)
			}
		}
		n, err := s.api.WouldPurge(ctx, "mail", key)
		s.same(1, n, err)
		n, err = s.api.Purge(ctx, "mail", key)
		s.same(1, n, err)
	}
	s.classAsWhole()
}

func (s *site) classAsWhole() {
	s.t.Helper()
	ctx := s.t.Context()
	s.check(last(s.api.Pause(ctx, "mail", "")))
	var jobs []queue.Job
	for i := range 6 {
		jobs = append(jobs, queue.Job{Class: "mail", Key: fmt.Sprint("k", i%2), ID: fmt.Sprint(i), Payload: []byte("1")})
	}
	for _, r := range s.api.SubmitMany(ctx, jobs) {
		s.check(r.Err)
	}
	full := queue.Job{Class: "mail", Key: "k0", Payload: []byte("1")}
	_, err := s.api.Submit(ctx, full)
	s.check(err)
	_, err = s.api.Submit(ctx, full)
	if refused, ok := errors.AsType[*queue.FullError](err); !ok || !refused.Paused || refused.Level != 4 || refused.Capacity != 4 {
		s.t.Errorf("a full bucket: %v", err)
	}
	known, err := s.direct.Buckets().List(ctx, "mail", 10)
	fullest, err2 := s.api.Fullest(ctx, "mail", 10)
	s.same(known, fullest, err, err2)
	var keys []string
	for _, b := range collect(s, s.api.Buckets(ctx, queue.BucketQuery{Class: "mail", Prefix: "k", Limit: 1})) {
		keys = append(keys, b.Key)
	}
	slices.Sort(keys)
	s.same([]string{"k0", "k1"}, keys)
	n, err := s.api.WouldPurge(ctx, "mail", "")
	s.same(7, n, err)
	n, err = s.api.Purge(ctx, "mail", "")
	s.same(7, n, err)
	s.check(last(s.api.Resume(ctx, "mail", "")))
}

func (s *site) jobs() {
	s.t.Helper()
	ctx := s.t.Context()
	job := queue.Job{Class: "mail", Key: "k", ID: "invoice", Payload: []byte(`{"n":1}`), MaxWait: time.Minute}
	receipt, err := s.api.Submit(ctx, job)
	s.check(err)
	again, err := s.api.SubmitWait(ctx, job)
	want := receipt
	want.Status = queue.Duplicate
	s.same(want, again, err)
	job.Payload = []byte("2")
	if _, err := s.api.Submit(ctx, job); !errors.Is(err, queue.ErrConflict) {
		s.t.Errorf("another job under the same id: %v", err)
	}
	known, _, err := s.direct.JobPage(ctx, queue.JobQuery{Class: "mail"})
	s.same(known, collect(s, s.api.Jobs(ctx, queue.JobQuery{Class: "mail", Key: "k", Limit: 1})), err)

	s.end(receipt.Ref, queue.Verdict{Outcome: queue.Done, Result: []byte{0xff, 0}})
	ending, err := s.direct.Await(ctx, receipt.Ref)
	got, err2 := s.api.Await(ctx, receipt.Ref)
	s.same(ending, got, err, err2)
	read, err := s.api.Job(ctx, receipt.Ref)
	done, err2 := s.direct.Job(ctx, receipt.Ref)
	s.same(done, read, err, err2)
	if !bytes.Equal(read.Result, []byte{0xff, 0}) || len(read.History) != 1 {
		s.t.Errorf("the job that is done: %+v", read)
	}

	later, err := s.api.Submit(ctx, queue.Job{Class: "mail", Key: "k", Payload: []byte("1"), NotBefore: time.Now().Add(time.Hour)})
	s.check(err)
	state, err := s.api.Cancel(ctx, later.Ref)
	s.same(queue.Cancelled, state, err)
	if _, err := s.api.Cancel(ctx, later.Ref); !errors.Is(err, queue.ErrNotFound) {
		s.t.Error(err)
	}
	if _, err := s.api.Job(ctx, "nonsense"); !errors.Is(err, queue.ErrInvalid) {
		s.t.Error(err)
	}
}

func (s *site) dead() {
	s.t.Helper()
	ctx := s.t.Context()
	for i := range 3 {
		receipt, err := s.api.Submit(ctx, queue.Job{Class: "mail", Key: "a/b", ID: fmt.Sprint("dead", i), Payload: []byte("1")})
		s.check(err)
		s.end(receipt.Ref, queue.Verdict{Outcome: queue.Dead, Error: fmt.Sprintf("503 after %d tries", i)})
	}
	q := queue.DeadQuery{Class: "mail", Key: "a/b", Limit: 100}
	known, err := s.direct.Dead().List(ctx, q)
	s.check(err)
	s.same(known, collect(s, s.api.Dead(ctx, q)))
	s.same(known[1:], collect(s, s.api.Dead(ctx, queue.DeadQuery{Class: "mail", Before: known[0].EndedAt, Limit: 1})))
	groups, err := s.direct.Dead().Groups(ctx, "mail", 0)
	got, err2 := s.api.DeadGroups(ctx, "mail", 0)
	s.same(groups, got, err, err2)

	receipt, err := s.api.Retry(ctx, known[0].Ref)
	s.same(known[0].Ref, receipt.Ref, err)
	if _, err := s.api.Retry(ctx, known[0].Ref); !errors.Is(err, queue.ErrNotFound) {
		s.t.Error(err)
	}
	s.end(receipt.Ref, queue.Verdict{Outcome: queue.Dead, Error: "503"})
	n, err := s.api.WouldPurgeDead(ctx, "mail", "nobody")
	s.same(0, n, err)
	pass, err := s.api.RetryDead(ctx, "mail", "a/b", time.Time{})
	if err != nil || pass.Retried != 3 || pass.Left != 0 || pass.More || pass.Before.IsZero() {
		s.t.Errorf("%+v, %v", pass, err)
	}
	pass, err = s.api.RetryDead(ctx, "mail", "", pass.Before)
	s.same(0, pass.Retried, err)
	n, err = s.api.PurgeDead(ctx, "mail", "")
	s.same(0, n, err)
	var busy *queue.BusyError
	_, _, err = s.api.RemoveClass(ctx, "mail", false)
	if !errors.As(err, &busy) || busy.Waiting != 3 || busy.Class != "mail" {
		s.t.Errorf("a class with jobs: %v", err)
	}
}

func (s *site) service() {
	s.t.Helper()
	ctx := s.t.Context()
	known, err := s.direct.Audit(ctx, "mail")
	all, err2 := s.api.Audit(ctx, "")
	s.same(known, all, err, err2)
	workers, err := s.direct.Workers(ctx)
	got, err2 := s.api.Workers(ctx)
	s.same(workers, got, err, err2)
	history, err := s.api.History(ctx, "mail", queue.Recent)
	if err != nil || history.Class != "mail" || history.Step != 5*time.Second || len(history.Points) == 0 {
		s.t.Errorf("%+v, %v", history, err)
	}
	question := client.Question{Key: "ann", Limit: "1/1h"}
	for _, want := range []bool{true, false} {
		d, err := s.api.Check(ctx, question)
		if err != nil || d.Conform != want || (d.RetryAfter > 0) == want || d.Limit != 1 {
			s.t.Errorf("%+v, %v", d, err)
		}
	}
	waiting, dead, err := s.api.RemoveClass(ctx, "mail", true)
	s.same([2]int{3, 0}, [2]int{waiting, dead}, err)
	var actions []string
	for _, change := range collect(s, s.api.Changes(ctx, "mail", "a/b")) {
		actions = append(actions, change.Who+" "+change.Door+" "+change.Action+" "+change.Target)
	}
	if len(actions) < 5 || !slices.Contains(actions, "ann http pause mail/a/b") {
		s.t.Errorf("the log of changes: %q", actions)
	}
	if n := len(collect(s, s.api.Changes(ctx, "", ""))); n <= len(actions) {
		s.t.Errorf("all changes are %d", n)
	}
}

// TestEvents: who listens hears of what is submitted from then on.
func TestEvents(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		s := newSite(t, rdb)
		ctx := t.Context()
		_, err := s.direct.Classes().Put(ctx, mailClass())
		s.check(err)
		heard := make(chan client.Event)
		go func() {
			defer close(heard)
			for event, err := range s.api.Events(ctx, client.EventQuery{Class: "mail", What: []string{"admitted"}}) {
				if err != nil {
					return
				}
				heard <- event
				return
			}
		}()
		for i := 0; ; i++ { // nobody tells when it listens
			receipt, err := s.api.Submit(ctx, queue.Job{Class: "mail", Key: fmt.Sprint(i), Payload: []byte("1")})
			s.check(err)
			select {
			case event := <-heard:
				if event.What != "admitted" || event.Class != "mail" || event.Key == "" || event.Ref == "" || event.At.IsZero() {
					t.Errorf("heard %+v, submitted %s", event, receipt.Ref)
				}
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
}
