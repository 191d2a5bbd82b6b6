package desk_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/changes"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// site is an installation with two classes, own and foreign, each with jobs that wait and one that is dead.
type site struct {
	desk   *desk.Desk
	client *queue.Client
	dead   map[string]string // ref by class
	line   map[string]string
}

func setup(t *testing.T) *site {
	t.Helper()
	client, err := queue.Open(t.Context(), redistest.MiniClient(t), queue.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{desk: desk.New(client, "cli", slog.New(slog.DiscardHandler)), client: client, dead: map[string]string{}, line: map[string]string{}}
	for _, name := range []string{"own", "foreign"} {
		class := queue.NewClass(name, 100, queue.Rate{Limit: 1000, Period: time.Second})
		class.Retry.MaxAttempts = 1
		if _, err := client.Classes().Put(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		s.dead[name] = s.submit(t, name)
		s.bury(t, name)
		if err := client.Classes().Pause(t.Context(), name); err != nil { // so that what follows waits
			t.Fatal(err)
		}
		s.line[name] = s.submit(t, name)
	}
	report := queue.Report{Worker: "worker-own", Classes: []string{"own"}, Since: time.Now()}
	if _, err := client.Report(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) submit(t *testing.T, class string) (ref string) {
	t.Helper()
	receipt, err := s.client.Submit(t.Context(), queue.Job{Class: class, Key: "k", Payload: []byte(`{"secret":"payload"}`)})
	if err != nil {
		t.Fatal(err)
	}
	return receipt.Ref
}

// bury lets the job of a class depart and fail for good.
func (s *site) bury(t *testing.T, class string) {
	t.Helper()
	outlet := s.client.Outlet("worker-"+class, 0)
	for {
		left, err := outlet.Depart(t.Context(), queue.Ask{Want: 1, Classes: []string{class}})
		if err != nil {
			t.Fatal(err)
		}
		if len(left.Jobs) == 0 {
			continue
		}
		d := left.Jobs[0]
		_, err = outlet.Settle(t.Context(), []queue.Verdict{{
			Ref: d.Ref, Stamp: d.Stamp, Class: d.Class, Outcome: queue.Failed, Error: "it broke", Due: d.Due,
		}})
		if err != nil {
			t.Fatal(err)
		}
		return
	}
}

// method is one thing that the desk does to a class, and the least role that it takes.
type method struct {
	name  string
	least access.Role
	do    func(ctx context.Context, s *site, class string) error
	// changes is what the log of changes calls it; empty for what changes nothing, or is in the books.
	changes string
}

// listed turns a list into an error where a class is not in it.
func listed(class string, names []string, err error) error {
	if err == nil && !slices.Contains(names, class) {
		return fmt.Errorf("%w: %s is not in the list", queue.ErrUnknownClass, class)
	}
	return err
}

// last is the error of a call that returns something else, too.
func last[T any](_ T, err error) error { return err }

func whole(class string) desk.Target { return desk.Target{Class: class} }

// methods are all of them: a test wants none forgotten.
func methods() []method {
	job := func(class string) queue.Job {
		return queue.Job{Class: class, Key: "new", Payload: []byte(`{"secret":"payload"}`)}
	}
	bucket := func(class string) desk.Target { return desk.Target{Class: class, Key: "k"} }
	return []method{
		{"Now", access.Viewer, func(ctx context.Context, s *site, _ string) error { return last(s.desk.Now(ctx)) }, ""},
		{"Classes", access.Viewer, func(ctx context.Context, s *site, class string) error {
			list, err := s.desk.Classes(ctx)
			var names []string
			for _, c := range list {
				names = append(names, c.Name)
			}
			return listed(class, names, err)
		}, ""},
		{"Class", access.Viewer, func(ctx context.Context, s *site, class string) error { return last(s.desk.Class(ctx, class)) }, ""},
		{"Books", access.Viewer, func(ctx context.Context, s *site, class string) error { return last(s.desk.Books(ctx, class)) }, ""},
		{"Bucket", access.Viewer, func(ctx context.Context, s *site, class string) error { return last(s.desk.Bucket(ctx, bucket(class))) }, ""},
		{"Buckets", access.Viewer, func(ctx context.Context, s *site, class string) error { return last(s.desk.Buckets(ctx, class, 9)) }, ""},
		{"BucketPage", access.Viewer, func(ctx context.Context, s *site, class string) error {
			list, _, err := s.desk.BucketPage(ctx, queue.BucketQuery{Limit: 100})
			var names []string
			for _, b := range list {
				names = append(names, b.Class)
			}
			return listed(class, names, err)
		}, ""},
		{"JobPage", access.Viewer, func(ctx context.Context, s *site, class string) error {
			_, _, err := s.desk.JobPage(ctx, queue.JobQuery{Class: class, Limit: 9})
			return err
		}, ""},
		{"Jobs", access.Viewer, func(ctx context.Context, s *site, class string) error {
			return last(s.desk.Jobs(ctx, bucket(class), false, 9))
		}, ""},
		{"Job", access.Viewer, func(ctx context.Context, s *site, class string) error { return last(s.desk.Job(ctx, s.line[class])) }, ""},
		{"Await", access.Viewer, func(ctx context.Context, s *site, class string) error { return last(s.desk.Await(ctx, s.dead[class])) }, ""},
		{"Dead", access.Viewer, func(ctx context.Context, s *site, class string) error {
			return last(s.desk.Dead(ctx, queue.DeadQuery{Class: class, Limit: 9}))
		}, ""},
		{"DeadCount", access.Viewer, func(ctx context.Context, s *site, class string) error { return last(s.desk.DeadCount(ctx, class)) }, ""},
		{"DeadCountOf", access.Viewer, func(ctx context.Context, s *site, class string) error {
			n, err := s.desk.DeadCountOf(ctx, bucket(class))
			if other, _ := s.desk.DeadCountOf(ctx, desk.Target{Class: class, Key: "other"}); err == nil && (n != 1 || other != 0) {
				return fmt.Errorf("%d dead jobs in the bucket that has one, and %d in the other", n, other)
			}
			return err
		}, ""},
		{"DeadGroups", access.Viewer, func(ctx context.Context, s *site, class string) error { return last(s.desk.DeadGroups(ctx, class, 9)) }, ""},
		{"Audit", access.Viewer, func(ctx context.Context, s *site, class string) error { return last(s.desk.Audit(ctx, class)) }, ""},
		{"History", access.Viewer, func(ctx context.Context, s *site, class string) error {
			return last(s.desk.History(ctx, class, queue.Recent))
		}, ""},
		{"Changes", access.Viewer, func(ctx context.Context, s *site, class string) error {
			_, _, err := s.desk.Changes(ctx, changes.Query{Class: class})
			return err
		}, ""},
		{"Workers", access.Viewer, func(ctx context.Context, s *site, class string) error {
			list, err := s.desk.Workers(ctx)
			var names []string
			for _, w := range list {
				names = append(names, w.Classes...)
			}
			return listed(class, names, err)
		}, ""},
		{"Submit", access.Operator, func(ctx context.Context, s *site, class string) error { return last(s.desk.Submit(ctx, job(class))) }, ""},
		{"SubmitMany", access.Operator, func(ctx context.Context, s *site, class string) error {
			return s.desk.SubmitMany(ctx, []queue.Job{job(class)})[0].Err
		}, ""},
		{"Pause", access.Operator, func(ctx context.Context, s *site, class string) error { return last(s.desk.Pause(ctx, bucket(class))) }, "pause"},
		{"Resume", access.Operator, func(ctx context.Context, s *site, class string) error { return last(s.desk.Resume(ctx, whole(class))) }, "resume"},
		{"Drain", access.Operator, func(ctx context.Context, s *site, class string) error { return last(s.desk.Drain(ctx, whole(class))) }, "drain"},
		{"Hold", access.Operator, func(ctx context.Context, s *site, class string) error {
			return last(s.desk.Hold(ctx, bucket(class), time.Now().Add(time.Hour)))
		}, "hold"},
		{"Unhold", access.Operator, func(ctx context.Context, s *site, class string) error {
			if err := s.client.Classes().Hold(ctx, class, time.Now().Add(time.Hour), "a service"); err != nil {
				return err
			}
			return last(s.desk.Unhold(ctx, whole(class)))
		}, "unhold"},
		{"Cancel", access.Operator, func(ctx context.Context, s *site, class string) error { return last(s.desk.Cancel(ctx, s.line[class])) }, "cancel job"},
		{"Retry", access.Operator, func(ctx context.Context, s *site, class string) error { return last(s.desk.Retry(ctx, s.dead[class])) }, "retry job"},
		{"RetryDead", access.Operator, func(ctx context.Context, s *site, class string) error {
			return last(s.desk.RetryDead(ctx, whole(class), time.Time{}, nil))
		}, "retry dead"},
		{"Revive", access.Operator, func(ctx context.Context, s *site, class string) error {
			return last(s.desk.Revive(ctx, whole(class), time.Time{}, func(queue.Revival) {}))
		}, "retry dead, retry dead"},
		{"PutClass", access.Admin, func(ctx context.Context, s *site, class string) error {
			return last(s.desk.PutClass(ctx, queue.NewClass(class, 7, queue.Rate{Limit: 1, Period: time.Second})))
		}, "put class"},
		{"PutClassIf", access.Admin, func(ctx context.Context, s *site, class string) error {
			return last(s.desk.PutClassIf(ctx, queue.NewClass(class, 7, queue.Rate{Limit: 1, Period: time.Second}), 1))
		}, "put class"},
		{"RemoveClass", access.Admin, func(ctx context.Context, s *site, class string) error {
			return last(s.desk.RemoveClass(ctx, class, true))
		}, "remove class"},
		{"CheckMeter", access.Operator, func(ctx context.Context, s *site, _ string) error {
			return last(s.desk.CheckMeter(ctx, []byte(`{"key":"k","limit":"9/1s"}`)))
		}, ""},
		{"Purge", access.Admin, func(ctx context.Context, s *site, class string) error { return last(s.desk.Purge(ctx, bucket(class))) }, "purge"},
		{"PurgeDead", access.Admin, func(ctx context.Context, s *site, class string) error {
			return last(s.desk.PurgeDead(ctx, whole(class)))
		}, "purge dead"},
	}
}

func TestNoMethodForgotten(t *testing.T) {
	t.Parallel()
	known := []string{"Allow", "Client"} // they are for those who ask for themselves
	for _, m := range methods() {
		known = append(known, m.name)
	}
	slices.Sort(known)
	var have []string
	for m := range reflect.TypeFor[*desk.Desk]().Methods() {
		have = append(have, m.Name)
	}
	if diff := cmp.Diff(known, have); diff != "" {
		t.Error(diff)
	}
}

// TestRoles sends every method every role, for a class that the person sees and for one that does not exist for them.
func TestRoles(t *testing.T) {
	t.Parallel()
	for _, m := range methods() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			untouched := setup(t) // where nothing may change
			if err := m.do(t.Context(), untouched, "own"); !errors.Is(err, access.ErrDenied) {
				t.Errorf("nobody: %v", err)
			}
			for _, role := range []access.Role{"", access.Viewer, access.Operator, access.Admin} {
				person := access.Person{Name: "ann", Role: role, Classes: []string{"own"}}
				ctx, may := access.With(t.Context(), person), person.May(m.least)
				for _, class := range []string{"own", "foreign"} {
					s := untouched
					if may && class == "own" && m.changes != "" {
						s = setup(t)
						defer s.checkLog(t, strings.Split(m.changes, ", ")...)
					}
					err := m.do(ctx, s, class)
					switch {
					case !may && !errors.Is(err, access.ErrDenied):
						t.Errorf("%q, %s: %v, want denied", role, class, err)
					case may && class == "own" && err != nil:
						t.Errorf("%q: %v", role, err)
					case may && class == "foreign" && m.name != "Now" && m.name != "CheckMeter" && !errors.Is(err, queue.ErrUnknownClass) && !errors.Is(err, queue.ErrNotFound):
						t.Errorf("%q: a foreign class is there: %v", role, err)
					}
				}
			}
			untouched.checkLog(t)
		})
	}
}

// checkLog wants some changes in the log, and no payload.
func (s *site) checkLog(t *testing.T, want ...string) {
	t.Helper()
	root := access.With(t.Context(), access.Person{Name: "root", Role: access.Admin})
	list, _, err := s.desk.Changes(root, changes.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, c := range list {
		actions = append(actions, c.Action)
		if c.Who != "ann" || c.Door != "cli" || c.Class != "own" || !strings.HasPrefix(c.Target, "own") || c.Error != "" {
			t.Errorf("the log has %+v", c)
		}
		if strings.Contains(fmt.Sprintf("%s %s", c.Before, c.After), "secret") {
			t.Errorf("the log has a payload: %s %s", c.Before, c.After)
		}
	}
	if diff := cmp.Diff(want, actions); diff != "" {
		t.Errorf("the log has other changes: %s", diff)
	}
}

// Somebody who knows of some classes goes through the buckets of these, and no cursor names another.
func TestCursorsNameNobody(t *testing.T) {
	t.Parallel()
	s := setup(t)
	mine := []string{"own", "between", "zz"}
	for _, name := range []string{"between", "mid-foreign", "zz"} {
		if _, err := s.client.Classes().Put(t.Context(), queue.NewClass(name, 100, queue.Rate{Limit: 1, Period: time.Hour})); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			key := "secret-of-" + name + fmt.Sprint(time.Now().UnixNano())
			if _, err := s.client.Submit(t.Context(), queue.Job{Class: name, Key: key, Payload: []byte("1")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx := access.With(t.Context(), access.Person{Name: "ann", Role: access.Viewer, Classes: mine})
	seen := map[string]bool{}
	for after, more := "", true; more; {
		list, next, err := s.desk.BucketPage(ctx, queue.BucketQuery{After: after, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range list {
			seen[b.Name()] = true
			if !slices.Contains(mine, b.Class) {
				t.Errorf("it shows %s", b.Name())
			}
		}
		_, inner, _ := strings.Cut(next, ".")
		if text, err := base64.RawURLEncoding.DecodeString(inner); err != nil || strings.Contains(next+string(text), "foreign") {
			t.Errorf("the cursor %s says %s, %v", next, text, err)
		}
		after, more = next, next != ""
	}
	if len(seen) != 7 {
		t.Errorf("seen are %v", seen)
	}
	if _, _, err := s.desk.BucketPage(ctx, queue.BucketQuery{After: "own.nonsense"}); !errors.Is(err, queue.ErrInvalid) {
		t.Errorf("a cursor that is none: %v", err)
	}
	if list, next, err := s.desk.BucketPage(ctx, queue.BucketQuery{After: "zzz."}); err != nil || next != "" || len(list) != 0 {
		t.Errorf("behind the last: %v %q, %v", list, next, err)
	}
}
