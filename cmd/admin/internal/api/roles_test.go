package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/queue"
)

// roleCase is one route and how each who asks is answered: nobody, a viewer, an operator, an admin, and an admin of another class.
type roleCase struct {
	route, path, body string
	status            [5]int
}

func roleCases(waiting, dead string) []roleCase {
	const job = `{"class":"calls","key":"k","payload":1}`
	const class = `{"capacity":10,"rate":"1/60s"}`
	reads, hides := [5]int{401, 200, 200, 200, 404}, [5]int{401, 200, 200, 200, 200}
	operates, governs := [5]int{401, 403, 200, 200, 404}, [5]int{401, 403, 403, 200, 404}
	cases := []roleCase{
		{"POST /v1/jobs", "/v1/jobs", job, [5]int{401, 403, 202, 202, 404}},
		{"POST /v1/jobs/batch", "/v1/jobs/batch", `{"jobs":[` + job + `]}`, [5]int{401, 403, 200, 200, 200}},
		{"GET /v1/jobs", "/v1/jobs?class=calls", "", reads},
		{"GET /v1/jobs/{ref}", "/v1/jobs/" + waiting, "", reads},
		{"GET /v1/jobs/{ref}/end", "/v1/jobs/" + dead + "/end", "", reads},
		{"POST /v1/jobs/{ref}/retry", "/v1/jobs/" + waiting + "/retry", "", [5]int{401, 403, 404, 404, 404}}, // it is not dead
		{"POST /v1/jobs/{ref}/cancel", "/v1/jobs/" + dead + "/cancel", "", [5]int{401, 403, 409, 409, 404}},  // it is
		{"GET /v1/classes", "/v1/classes", "", hides},
		{"GET /v1/classes/{class}", "/v1/classes/calls", "", reads},
		{"PUT /v1/classes/{class}", "/v1/classes/calls", class, governs},
		{"DELETE /v1/classes/{class}", "/v1/classes/calls?purge=true", "", [5]int{401, 403, 403, 428, 404}},
		{"GET /v1/buckets", "/v1/buckets?class=calls", "", reads},
		{"GET /v1/buckets", "/v1/buckets?order=name", "", hides},
		{"GET /v1/dead", "/v1/dead?class=calls", "", reads},
		{"GET /v1/dead/groups", "/v1/dead/groups?class=calls", "", reads},
		{"POST /v1/dead/retry", "/v1/dead/retry?class=calls&before=2020-01-01T00:00:00Z", "", operates},
		{"POST /v1/dead/purge", "/v1/dead/purge?class=calls", "", [5]int{401, 403, 403, 428, 404}},
		{"GET /v1/workers", "/v1/workers", "", hides},
		{"GET /v1/audit", "/v1/audit", "", hides},
		{"GET /v1/audit", "/v1/audit?class=calls", "", reads},
		{"GET /v1/changes", "/v1/changes", "", hides},
		{"GET /v1/changes", "/v1/changes?class=calls", "", reads},
		{"GET /v1/history", "/v1/history?class=calls", "", reads},
		{"POST /v1/meter/check", "/v1/meter/check", `{"key":"k","limit":"100/1s"}`, [5]int{401, 403, 200, 200, 200}},
		{"GET /v1/events", "/v1/events?class=calls", "", [5]int{401, 200, 200, 200, 404}},
	}
	for place, path := range map[string]string{
		"/v1/classes/{class}": "/v1/classes/calls", "/v1/classes/{class}/buckets/{key}": "/v1/classes/calls/buckets/k",
		"/v1/classes/{class}/bucket": "/v1/classes/calls/bucket",
	} {
		query := ""
		if strings.HasSuffix(place, "bucket") {
			query = "?key=k"
		}
		for _, action := range []string{"pause", "drain", "resume", "hold", "unhold", "purge"} {
			c := roleCase{"POST " + place + "/" + action, path + "/" + action + query, "", operates}
			switch action {
			case "hold":
				c.body = `{"for":"1ms"}`
			case "purge":
				c.status = [5]int{401, 403, 403, 428, 404}
			}
			cases = append(cases, c)
		}
		if place != "/v1/classes/{class}" {
			cases = append(cases, roleCase{"GET " + place, path + query, "", reads})
		}
	}
	return cases
}

// Every route of the description, asked by everybody.
func TestRoles(t *testing.T) {
	t.Parallel()
	s := realSite(t)
	s.class("calls", 100)
	s.class("other", 100)
	submit := func(id string) string {
		receipt, err := s.client.Submit(t.Context(), queue.Job{Class: "calls", Key: "k2", ID: id, Payload: []byte("1")})
		if err != nil {
			t.Fatal(err)
		}
		return receipt.Ref
	}
	waiting := submit("waits")
	dead := s.bury("calls", "k3", "dies")
	missing := map[string]bool{}
	for path, item := range object(s.document.raw["paths"]) {
		for method := range object(item) {
			missing[strings.ToUpper(method)+" "+path] = true
		}
	}
	for _, c := range roleCases(waiting, dead) {
		delete(missing, c.route)
		method, _, _ := strings.Cut(c.route, " ")
		for i, who := range []string{"none", "viewer", "operator", "admin", "admin=other"} {
			if strings.HasPrefix(c.route, "GET /v1/events") && c.status[i] == 200 {
				continue // it does not end; see TestEvents
			}
			if got := s.ask(who, method, c.path, c.body); got.status != c.status[i] {
				t.Errorf("%s as %s: %d, want %d: %s", c.route, who, got.status, c.status[i], got.body)
			}
		}
	}
	for route := range missing {
		t.Errorf("%s is not in the table", route)
	}
	for _, path := range []string{"/v1/classes", "/v1/buckets?order=name", "/v1/audit", "/v1/changes"} {
		if got := s.ask("viewer=other", "GET", path, ""); strings.Contains(got.body, "calls") {
			t.Errorf("%s tells of a class that does not exist for who asks: %s", path, got.body)
		}
	}
	batch := s.ask("viewer=other", "POST", "/v1/jobs/batch", `{"jobs":[{"class":"calls","key":"k","payload":1}]}`)
	if batch.status != 403 {
		t.Errorf("a batch of a viewer: %d %s", batch.status, batch.body)
	}
}

// bury has a job die, as a worker does, and returns its ref.
func (s *site) bury(class, key, id string) string {
	s.tb.Helper()
	receipt, err := s.client.Submit(s.tb.Context(), queue.Job{Class: class, Key: key, ID: id, Payload: []byte("1")})
	if err != nil {
		s.tb.Fatal(err)
	}
	for shard := range s.client.Shards() {
		outlet := s.client.Outlet("undertaker-"+id, shard)
		for deadline := time.Now().Add(20 * time.Second); ; {
			out, err := outlet.Depart(s.tb.Context(), queue.Ask{Want: 10, Classes: []string{class}})
			if err != nil {
				s.tb.Fatal(err)
			}
			var verdicts []queue.Verdict
			for _, d := range out.Jobs {
				verdict := queue.Verdict{Ref: d.Ref, Stamp: d.Stamp, Class: class, Outcome: queue.Back}
				if d.Ref == receipt.Ref {
					verdict.Outcome, verdict.Error = queue.Dead, "it was no use: attempt 17"
				}
				verdicts = append(verdicts, verdict)
			}
			if len(verdicts) > 0 {
				if _, err := outlet.Settle(s.tb.Context(), verdicts); err != nil {
					s.tb.Fatal(err)
				}
			}
			if job, err := s.client.Job(s.tb.Context(), receipt.Ref); err == nil && job.State == queue.Kept {
				_, _ = outlet.Leave(s.tb.Context())
				return receipt.Ref
			}
			if !strings.HasPrefix(receipt.Ref, string(rune('0'+shard))) {
				break
			}
			if time.Now().After(deadline) {
				s.tb.Fatal("the job does not die")
			}
		}
	}
	s.tb.Fatal("no shard had the job")
	return ""
}
