package pages

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/queue"
)

// The other people who look.
var (
	cat = access.Person{Name: "cat", Role: access.Operator}
	bob = access.Person{Name: "bob", Role: access.Viewer}
	eve = access.Person{Name: "eve", Role: access.Admin, Classes: []string{"other"}}
)

// quick makes a class that lets its jobs go almost at once, and buries them at the first failure.
func (s *site) quick(name string, capacity int) {
	s.t.Helper()
	class := queue.NewClass(name, capacity, queue.Rate{Limit: 1000, Period: time.Second})
	class.Retry.MaxAttempts, class.Retention, class.MaxPayload = 1, time.Hour, queue.MaxPayload
	_, err := s.jobs.Classes().Put(s.t.Context(), class)
	must(s.t, err)
}

// job submits one and returns its ref.
func (s *site) job(j queue.Job) string {
	s.t.Helper()
	if j.Payload == nil {
		j.Payload = json.RawMessage(`{}`)
	}
	r, err := s.jobs.Submit(s.t.Context(), j)
	must(s.t, err)
	return r.Ref
}

// end lets n jobs of a class depart and says what became of them.
func (s *site) end(class string, n int, v queue.Verdict) {
	s.t.Helper()
	var outlets []*queue.Outlet
	name := "worker-" + rand.Text()
	for shard := range s.jobs.Shards() {
		outlets = append(outlets, s.jobs.Outlet(name, shard))
	}
	s.until(func() bool {
		for _, outlet := range outlets {
			d, err := outlet.Depart(s.t.Context(), queue.Ask{Want: min(n, 100), Classes: []string{class}})
			must(s.t, err)
			for _, j := range d.Jobs {
				own := v
				own.Ref, own.Stamp, own.Class, own.Due, own.Started = j.Ref, j.Stamp, j.Class, j.Due, j.Due.Add(3*time.Millisecond)
				taken, err := outlet.Settle(s.t.Context(), []queue.Verdict{own})
				must(s.t, err)
				if !taken[0] {
					s.t.Fatalf("the end of %s was not taken", j.ID)
				}
				n--
			}
		}
		return n == 0
	})
	for _, outlet := range outlets {
		_, err := outlet.Leave(s.t.Context())
		must(s.t, err)
	}
}

// look is one frame of a live view.
func look(t *testing.T, s *site, who access.Person, path string) (func() frame, error) {
	t.Helper()
	_, r := recorder(t, who, path)
	next, err := s.pages.live[r.URL.Query().Get("view")](r)
	return func() frame {
		f, err := next(access.With(context.WithoutCancel(t.Context()), who))
		must(t, err)
		return f
	}, err
}

// commands counts what clients ask Redis for meanwhile.
func (s *site) commands(do func()) int64 {
	s.t.Helper()
	count := func() int64 {
		info, err := s.rdb.InfoMap(s.t.Context(), "stats").Result()
		must(s.t, err)
		n, err := strconv.ParseInt(info["Stats"]["total_commands_processed"], 10, 64)
		must(s.t, err)
		return n
	}
	before := count()
	do()
	return count() - before
}

// A mistyped address is answered with a page that leads back to the others.
func TestNowhere(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "/spout"} {
		s := newSite(t, base)
		status, page := s.get(bob, base+"/bukcet")
		if status != http.StatusNotFound || !strings.Contains(page, `href="`+base+`/"`) || !strings.Contains(page, "nothing is at this address") {
			t.Errorf("%s/bukcet: %d\n%s", base, status, page)
		}
	}
}
