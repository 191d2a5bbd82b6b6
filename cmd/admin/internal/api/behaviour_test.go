package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/cmd/admin/internal/api"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

func TestBatch(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		s := newSite(t, rdb)
		s.class("calls", 2)
		lines := []string{
			`{"class":"calls","key":"k","id":"1","payload":1}`, `{"class":"calls","key":"k"}`, `{"class":"calls","key":"k","id":"2","payload":1}`,
			`{"class":"calls","key":"k","id":"3","payload":1}`, `{"class":"calls","key":"k","id":"1","payload":1}`, `{"class":"nosuch","key":"k","payload":1}`,
		}
		var got struct {
			Results []struct{ Status, Reason, ID string }
		}
		s.ask("operator", "POST", "/v1/jobs/batch", `{"jobs":[`+strings.Join(lines, " , ")+`]}`).read(t, &got)
		var words []string
		for _, r := range got.Results {
			words = append(words, r.Status+r.Reason)
		}
		want := "admitted rejectedinvalid admitted rejectedfull duplicate rejectedunknown_class"
		if strings.Join(words, " ") != want {
			t.Errorf("got %v, want %s", words, want)
		}
		words = nil
		inLines := s.ask("operator", "POST", "/v1/jobs/batch", strings.Join(lines, "\n")+"\n", "Content-Type", "application/x-ndjson")
		for line := range strings.Lines(inLines.body) {
			var r struct {
				Line               int
				Status, Reason, ID string
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			words = append(words, fmt.Sprint(r.Line, r.Status, r.Reason))
			if r.ID == "" && r.Reason != "invalid" { // of a refusal, too: nobody may know what became of it
				t.Errorf("%s has no id", line)
			}
		}
		want = "1duplicate 2rejectedinvalid 3duplicate 4rejectedfull 5duplicate 6rejectedunknown_class"
		if strings.Join(words, " ") != want || inLines.header.Get("Content-Type") != "application/x-ndjson" {
			t.Errorf("got %v, want %s", words, want)
		}
		s.ask("operator", "POST", "/v1/jobs/batch", `{"jobs":[]}`).want(t, 200, nil)
		s.ask("operator", "POST", "/v1/jobs/batch", lines[0], "Content-Type", "application/x-ndjson", "Accept", "application/json").read(t, &got)
		one := s.ask("operator", "POST", "/v1/jobs/batch", `{"jobs":[`+lines[0]+`]}`, "Accept", "application/x-ndjson")
		if one.want(t, 200, map[string]any{"line": 1, "status": "duplicate"}); len(got.Results) != 1 {
			t.Errorf("not as it is accepted: %+v", got)
		}
	})
}

func TestClasses(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		s := newSite(t, rdb)
		const path = "/v1/classes/calls"
		s.ask("admin", "PUT", path+"?dry_run=true", `{"capacity":5,"rate":"1/1s"}`).want(t, 200, map[string]any{"change": "new", "applied": false})
		s.ask("admin", "PUT", path, `{"capacity":5,"rate":"1/1s"}`, "If-Match", "*").want(t, 412, map[string]any{"reason": "conflict"})
		made := s.ask("admin", "PUT", path, `{"capacity":5,"rate":"1/1s","retry":{"order":"tail"}}`, "If-None-Match", "*")
		made.want(t, 201, map[string]any{"change": "new", "applied": true, "version": 1})
		s.ask("admin", "PUT", path, `{"capacity":5,"rate":"1/1s"}`, "If-None-Match", "*").want(t, 412, map[string]any{"reason": "conflict", "status": 412})

		// What was read can be written back.
		read := s.ask("viewer", "GET", path, "")
		read.want(t, 200, map[string]any{"name": "calls", "capacity": 5, "version": 1, "waiting": 0})
		s.ask("admin", "PUT", path, read.body).want(t, 200, map[string]any{"change": "unchanged", "applied": false})
		changed := strings.Replace(read.body, `"capacity":5`, `"capacity":7`, 1)
		s.ask("admin", "PUT", path+"?dry_run=true", changed).want(t, 200, map[string]any{"change": "changed", "applied": false, "version": 1})
		after := s.ask("admin", "PUT", path, changed, "If-Match", read.header.Get("ETag"))
		after.want(t, 200, map[string]any{"change": "changed", "applied": true, "version": 2})
		if !strings.Contains(after.body, `"fields":[{"field":"capacity","old":"5","new":"7"}]`) || after.header.Get("ETag") != `"2"` {
			t.Errorf("%v %s", after.header, after.body)
		}
		s.ask("admin", "PUT", path, changed, "If-Match", `"1"`).want(t, 412, map[string]any{"reason": "conflict"})
		s.ask("admin", "PUT", path, changed).want(t, 409, map[string]any{"reason": "conflict"}) // by the version in the body

		// Who has it already is not sent it again, until something in it is another.
		tag := s.ask("viewer", "GET", path, "").header.Get("ETag")
		for match, want := range map[string]int{tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304, `"2"`: 200, "x": 200} {
			if got := s.ask("viewer", "GET", path, "", "If-None-Match", match); got.status != want || want == 304 && (got.body != "" || got.header.Get("ETag") != tag) {
				t.Errorf("If-None-Match %s: %d %v %s", match, got.status, got.header, got.body)
			}
		}
		s.ask("operator", "POST", path+"/pause", "").want(t, 200, nil)
		s.ask("viewer", "GET", path, "", "If-None-Match", tag).want(t, 200, map[string]any{"paused": true, "version": 2})
		s.ask("operator", "POST", path+"/resume", "").want(t, 200, nil)
		s.ask("viewer", "GET", "/v1/classes/nosuch", "", "If-None-Match", "*").want(t, 404, nil)
		for _, match := range []string{`"2-`, `2`, `"-x"`, `"0-x"`, `"2","3"`, ``, `"2"`} { // the body has version 1
			s.ask("admin", "PUT", path, changed, "If-Match", match).want(t, 400, map[string]any{"reason": "invalid"})
		}

		s.ask("admin", "PUT", path, changed, "If-Match", "*").want(t, 409, map[string]any{"reason": "conflict"})
		s.ask("admin", "PUT", path, changed, "If-None-Match", "*").want(t, 400, map[string]any{"reason": "invalid"})

		// Removing asks twice.
		s.ask("operator", "POST", "/v1/jobs", `{"class":"calls","key":"k","payload":1}`).want(t, 202, nil)
		s.ask("admin", "DELETE", path, "").want(t, 409, map[string]any{"reason": "busy", "waiting": 1, "confirm": nil})
		s.ask("admin", "DELETE", path+"?confirm=0", "").want(t, 409, map[string]any{"reason": "busy", "waiting": 1})
		s.ask("admin", "DELETE", path+"?purge=true", "").want(t, 428, map[string]any{"reason": "unconfirmed", "confirm": "1", "waiting": 1, "dead": 0})
		s.ask("admin", "DELETE", path+"?purge=true&confirm=0", "").want(t, 428, map[string]any{"confirm": "1"})
		s.ask("admin", "DELETE", path+"?purge=true&confirm=1", "").want(t, 200, map[string]any{"removed": true, "purged_waiting": 1})
		s.ask("viewer", "GET", path, "").want(t, 404, map[string]any{"reason": "unknown_class"})
	})
}

func TestBuckets(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		s := newSite(t, rdb)
		s.class("calls", 10)
		for i := range 7 {
			for n := range i + 1 {
				s.ask("operator", "POST", "/v1/jobs", fmt.Sprintf(`{"class":"calls","key":"key-%d","id":"%d","payload":1}`, i, n)).want(t, 202, nil)
			}
		}
		type page struct {
			Items []struct {
				Key   string
				Level int
			}
			Next string
		}
		var fullest page
		s.ask("viewer", "GET", "/v1/buckets?class=calls&limit=3", "").read(t, &fullest)
		if len(fullest.Items) != 3 || fullest.Next != "" {
			t.Errorf("got %+v", fullest)
		}
		seen := map[string]int{}
		for path, more := "/v1/buckets?order=name&prefix=key-&limit=2", true; more; {
			var p page
			s.ask("viewer", "GET", path, "").read(t, &p)
			for _, b := range p.Items {
				seen[b.Key] = b.Level
			}
			path, more = "/v1/buckets?order=name&prefix=key-&limit=2&cursor="+p.Next, p.Next != ""
		}
		if len(seen) != 7 || seen["key-6"] != 7 {
			t.Errorf("page by page: %v", seen)
		}
		const bucket = "/v1/classes/calls/buckets/key-6"
		s.ask("operator", "POST", bucket+"/hold", `{"for":"1h"}`).want(t, 200, map[string]any{"hold_reason": "an operator"})
		s.ask("operator", "POST", bucket+"/unhold", "").want(t, 200, map[string]any{"hold": nil})
		s.ask("operator", "POST", bucket+"/hold", `{"until":"2100-01-01T00:00:00Z"}`).want(t, 200, map[string]any{"hold": "2100-01-01T00:00:00.000000Z"})
		s.ask("operator", "POST", bucket+"/hold", `{"until":"2100-01-01T00:00:00Z"}`).want(t, 200, map[string]any{"unchanged": true})
		s.ask("operator", "POST", bucket+"/drain", "").want(t, 200, map[string]any{"draining": true, "unchanged": nil})
		s.ask("operator", "POST", "/v1/classes/calls/resume", "").want(t, 200, map[string]any{"name": "calls", "unchanged": true})
		s.ask("operator", "POST", "/v1/jobs", `{"class":"calls","key":"key-6","payload":1}`).want(t, 409, map[string]any{"reason": "draining"})
		s.ask("admin", "POST", bucket+"/purge", "").want(t, 428, map[string]any{"confirm": "7"})
		s.ask("admin", "POST", bucket+"/purge?confirm=7", "").want(t, 200, map[string]any{"purged": 7, "key": "key-6"})
		s.ask("admin", "POST", "/v1/classes/calls/purge?confirm=1000", "").want(t, 200, map[string]any{"purged": 21, "key": nil})
		s.ask("viewer", "GET", "/v1/classes/calls", "").want(t, 200, map[string]any{"waiting": 0})
	})
}

func TestJobs(t *testing.T) {
	t.Parallel()
	s := realSite(t)
	s.class("calls", 100)
	for i := range 25 {
		s.ask("operator", "POST", "/v1/jobs", fmt.Sprintf(`{"class":"calls","key":"k","id":"%02d","payload":1}`, i)).want(t, 202, nil)
	}
	type page struct {
		Items []struct{ ID, Ref string }
		Next  string
	}
	var ids []string
	for path, more := "/v1/jobs?class=calls&key=k&limit=10", true; more; {
		var p page
		s.ask("viewer", "GET", path, "").read(t, &p)
		for _, j := range p.Items {
			ids = append(ids, j.ID)
			if j.ID == "09" { // others leave meanwhile
				s.ask("operator", "POST", "/v1/jobs/"+p.Items[0].Ref+"/cancel", "").want(t, 200, map[string]any{"state": "cancelled"})
			}
		}
		path, more = "/v1/jobs?class=calls&key=k&limit=10&cursor="+p.Next, p.Next != ""
	}
	if len(ids) != 25 || ids[0] != "00" || ids[24] != "24" {
		t.Errorf("the line is %v", ids)
	}
	if got := s.ask("viewer", "GET", "/v1/jobs/0-god2HxjLd8USEjS1YTrkXg", ""); got.status != 404 {
		t.Errorf("no such job: %d %s", got.status, got.body)
	}
}

func TestDead(t *testing.T) {
	t.Parallel()
	s := realSite(t)
	s.class("calls", 2, func(c *queue.Class) { c.Rate = queue.Rate{Limit: 1000, Period: time.Second} })
	for i := range 5 {
		s.bury("calls", "k", fmt.Sprint(i))
	}
	type page struct {
		Items []struct{ ID, State string }
		Next  string
	}
	var ids string
	for path, more := "/v1/dead?class=calls&limit=2", true; more; {
		var p page
		s.ask("viewer", "GET", path, "").read(t, &p)
		for _, j := range p.Items {
			ids += j.ID
		}
		path, more = "/v1/dead?class=calls&limit=2&cursor="+p.Next, p.Next != ""
	}
	if ids != "43210" {
		t.Errorf("the dead are %q, newest first", ids)
	}
	s.ask("viewer", "GET", "/v1/dead/groups?class=calls", "").want(t, 200, map[string]any{"looked": 5, "kept": 5})
	pass := s.ask("operator", "POST", "/v1/dead/retry?class=calls", "")
	pass.want(t, 200, map[string]any{"retried": 2, "left": 3})
	var told struct {
		Before string
		Retry  *int64 `json:"retry_after_ms"`
	}
	if pass.read(t, &told); told.Retry == nil || told.Before == "" {
		t.Error(pass.body)
	}
	s.ask("operator", "POST", "/v1/dead/retry?class=calls&before=0001-01-01T00:00:00Z", "").want(t, 200, map[string]any{"retried": 0, "left": 0})
	s.ask("viewer", "GET", "/v1/dead/groups?class=calls", "").want(t, 200, map[string]any{"kept": 3})
	if none := s.ask("viewer", "GET", "/v1/dead?class=calls&before=0001-01-01T00:00:00Z", ""); !strings.Contains(none.body, `"items":[]`) {
		t.Errorf("died in the year 1: %s", none.body)
	}
	s.ask("operator", "POST", "/v1/dead/retry?class=calls&before="+told.Before, "").want(t, 200, map[string]any{"retried": 0, "left": 3})
	s.ask("operator", "POST", "/v1/dead/retry?class=calls&before=2199-01-01T00:00:00Z", "").read(t, &told)
	if strings.HasPrefix(told.Before, "2199") {
		t.Error("a time to come would send those round again that die after this")
	}
	s.ask("admin", "POST", "/v1/dead/purge?class=calls&key=k", "").want(t, 428, map[string]any{"confirm": "3", "dead": 3, "waiting": nil})
	s.ask("admin", "POST", "/v1/dead/purge?class=calls&key=k&confirm=3", "").want(t, 200, map[string]any{"purged": 3})
}

// A submission that waits is answered when its job ends, and one that waits in vain, or with too many others, as any.
func TestWait(t *testing.T) {
	t.Parallel()
	s := realSite(t, func(o *api.Options) { o.Waiters = 1 })
	s.class("calls", 10, func(c *queue.Class) { c.Retention = time.Hour })
	const job = `{"class":"calls","key":"k","id":"1","payload":1}`
	answered := make(chan said)
	go func() { answered <- s.ask("operator", "POST", "/v1/jobs?wait=60s", job) }()
	var ref string
	for ref == "" {
		if jobs, err := s.client.Jobs(t.Context(), "calls", "k", false, 1); err != nil {
			t.Fatal(err)
		} else if len(jobs) > 0 {
			ref = jobs[0].Ref
		}
	}
	for s.rdb.PubSubNumSub(t.Context(), "{spout:"+ref[:1]+"}:end:"+ref).Val()["{spout:"+ref[:1]+"}:end:"+ref] == 0 {
		if t.Context().Err() != nil {
			t.Fatal("nobody waits")
		}
	}
	s.ask("operator", "POST", "/v1/jobs?wait=60s", job).want(t, 200, map[string]any{"status": "duplicate", "ending": nil}) // one waits already
	if _, err := s.client.Cancel(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	got := <-answered
	got.want(t, 200, map[string]any{"status": "admitted"})
	if !strings.Contains(got.body, `"ending":{"state":"cancelled"`) {
		t.Error(got.body)
	}
	s.ask("viewer", "GET", "/v1/jobs/"+ref+"/end", "").want(t, 200, map[string]any{"state": "cancelled"})
	waits := s.ask("operator", "POST", "/v1/jobs", `{"class":"calls","key":"k","id":"2","payload":"<1>"}`, "Prefer", "respond-async, Wait=1; x=y")
	waits.want(t, 202, map[string]any{"status": "admitted", "ending": nil})
	began := time.Now()
	if at := s.ask("viewer", "GET", waits.header.Get("Location")+"/end", ""); time.Since(began) > 1500*time.Millisecond || at.status != 202 || !strings.Contains(at.body, `"payload":"<1>"`) {
		t.Errorf("not yet: %d %s", at.status, at.body) // byte for byte what was sent
	}
}

// Without Redis nothing is taken for done, and nobody is told where it is.
func TestAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSite(t, server.Client(t))
	s.class("calls", 1)
	receipt, err := s.client.Submit(t.Context(), queue.Job{Class: "calls", Key: "k", Payload: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	server.Kill()
	_, port, _ := strings.Cut(server.Addr, ":")
	for _, c := range roleCases(receipt.Ref, receipt.Ref) {
		method, _, _ := strings.Cut(c.route, " ")
		got := s.ask("admin", method, c.path, c.body)
		if c.route != "POST /v1/jobs/batch" && got.status != 503 && got.status != 504 {
			t.Errorf("%s: %d %s", c.route, got.status, got.body)
		}
		for _, inner := range []string{port, "dial", "127.0.0.1", "tcp", "connection"} {
			if strings.Contains(got.body, inner) {
				t.Errorf("%s tells %q: %s", c.route, inner, got.body)
			}
		}
	}
	s.ask("viewer", "GET", "/v1/classes", "").want(t, 503, map[string]any{"reason": "unavailable"})
}

// What is agreed to is all that is dropped, also where the dead of a bucket are more than what is read at a time.
func TestPurgeOfManyDead(t *testing.T) {
	t.Parallel()
	s := realSite(t)
	s.class("calls", 2000, func(c *queue.Class) { c.Rate = queue.Rate{Limit: 10_000, Period: time.Second} })
	const most = 1001
	jobs := make([]queue.Job, most)
	for i := range jobs {
		jobs[i] = queue.Job{Class: "calls", Key: "k", Payload: []byte("1")}
	}
	s.client.SubmitMany(t.Context(), jobs)
	outlets := make([]*queue.Outlet, s.client.Shards())
	for shard := range outlets {
		outlets[shard] = s.client.Outlet("undertaker", shard)
	}
	deadline := time.Now().Add(time.Minute)
	for dead := 0; dead < most; {
		if time.Now().After(deadline) {
			t.Fatalf("%d have died", dead)
		}
		for _, outlet := range outlets {
			dead += s.buryAll("calls", outlet)
		}
	}
	const purge = "/v1/dead/purge?class=calls&key=k"
	s.ask("admin", "POST", purge, "").want(t, 428, map[string]any{"confirm": "1001"})
	s.ask("admin", "POST", purge+"&confirm=1000", "").want(t, 428, map[string]any{"confirm": "1001"})
	s.ask("admin", "POST", purge+"&confirm=1001", "").want(t, 200, map[string]any{"purged": most})
}

// buryAll has everything die that can leave, and tells how many did.
func (s *site) buryAll(class string, outlet *queue.Outlet) int {
	s.tb.Helper()
	out, err := outlet.Depart(s.tb.Context(), queue.Ask{Want: 100, Classes: []string{class}})
	if err != nil {
		s.tb.Fatal(err)
	}
	verdicts := make([]queue.Verdict, len(out.Jobs))
	for i, d := range out.Jobs {
		verdicts[i] = queue.Verdict{Ref: d.Ref, Stamp: d.Stamp, Class: class, Outcome: queue.Dead, Error: "it was no use"}
	}
	if len(verdicts) == 0 {
		return 0
	}
	if _, err := outlet.Settle(s.tb.Context(), verdicts); err != nil {
		s.tb.Fatal(err)
	}
	return len(verdicts)
}
