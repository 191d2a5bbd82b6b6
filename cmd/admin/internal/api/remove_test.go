package api_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/spout-queue/spout/queue"
)

// Who is asked whether the jobs of a class may go is told that some are out, and keep it nevertheless.
func TestRemoveWithJobsOut(t *testing.T) {
	t.Parallel()
	s := newSite(t, mini(t))
	s.class("calls", 10)
	for range 2 {
		s.ask("operator", "POST", "/v1/jobs", `{"class":"calls","key":"k","payload":1}`).want(t, 202, nil)
	}
	for out := 0; out == 0; {
		for shard := range s.client.Shards() {
			departed, err := s.client.Outlet("worker", shard).Depart(t.Context(), queue.Ask{Want: 1})
			if err != nil {
				t.Fatal(err)
			}
			out += len(departed.Jobs)
		}
	}
	const remove = "/v1/classes/calls?purge=true"
	asks := s.ask("admin", "DELETE", remove, "")
	if asks.want(t, 428, map[string]any{"confirm": "1", "waiting": 1, "out": 1}); !strings.Contains(asks.body, "1 are out, and keep the class") {
		t.Error(asks.body)
	}
	s.ask("admin", "DELETE", remove+"&confirm=1", "").want(t, 409, map[string]any{"reason": "busy", "waiting": 0, "out": 1})
}

// Several that store the same class at once, as replicas that start do, are no conflict where nobody wants a version.
func TestPutAtOnce(t *testing.T) {
	t.Parallel()
	s := realSite(t)
	var many sync.WaitGroup
	for range 4 {
		many.Go(func() {
			if got := s.ask("admin", "PUT", "/v1/classes/calls", `{"capacity":5,"rate":"1/1s"}`); got.status != 200 && got.status != 201 {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
	many.Wait()
	s.ask("viewer", "GET", "/v1/classes/calls", "").want(t, 200, map[string]any{"capacity": 5})
}
