package console_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/console"
	"github.com/spout-queue/spout/queue"
)

// TestForeignNames: somebody who knows of one class finds no name of another, nor of its keys and jobs, at any route, page or cursor.
func TestForeignNames(t *testing.T) {
	t.Parallel()
	client := open(t)
	ctx := t.Context()
	refs := map[string]string{}
	for _, name := range []string{"own", "aa-secret1", "zz-secret1"} {
		if _, err := client.Classes().Put(ctx, queue.NewClass(name, 100, queue.Rate{Limit: 1, Period: time.Hour})); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			job := queue.Job{Class: name, Key: fmt.Sprint("key-of-", name, i), ID: fmt.Sprint("id-of-", name, i), Payload: []byte("1")}
			receipt, err := client.Submit(ctx, job)
			if err != nil {
				t.Fatal(err)
			}
			refs[name] = receipt.Ref
		}
		report := queue.Report{Worker: "worker-of-" + name, Classes: []string{name}, Since: time.Now()}
		if _, err := client.Report(ctx, report); err != nil {
			t.Fatal(err)
		}
	}
	at := start(t, console.Options{Client: client, Authenticate: func(r *http.Request) (access.Person, error) {
		if r.Method == http.MethodPost {
			return access.Person{Name: "root", Role: access.Admin}, nil
		}
		return access.Person{Name: "ann", Role: access.Viewer, Classes: []string{"own"}}, nil
	}})
	for _, name := range []string{"own", "aa-secret1"} { // so that the log of changes has them
		if head, body := do(t, request(t, "POST", at+"/v1/classes/"+name+"/pause", "")); head.StatusCode != 200 {
			t.Fatalf("pause: %s %s", head.Status, body)
		}
	}
	hidden := refs["zz-secret1"]
	paths := []string{
		"/v1/classes", "/v1/buckets?order=name&limit=1", "/v1/buckets?class=own", "/v1/jobs?class=own&limit=1", "/v1/dead?class=own", "/v1/dead/groups?class=own", "/v1/workers",
		"/v1/audit", "/v1/changes", "/v1/changes?limit=1", "/v1/history?class=own", "/v1/jobs/" + hidden, "/v1/jobs/" + hidden + "/end",
		"/", "/classes", "/class?name=own", "/bucket?class=own&key=k", "/dead", "/dead?class=own", "/workers", "/changes", "/job?ref=" + hidden,
	}
	next := regexp.MustCompile(`"next":"([^"]*)"`)
	for seen := 0; len(paths) > 0; seen++ {
		path := paths[0]
		paths = paths[1:]
		_, body := do(t, request(t, "GET", at+path, "", "Accept: text/html, application/json"))
		cursor := ""
		if m := next.FindStringSubmatch(body); m != nil {
			_, inner, dotted := strings.Cut(m[1], ".")
			if !dotted {
				inner = m[1]
			}
			text, _ := base64.RawURLEncoding.DecodeString(inner)
			cursor = m[1] + string(text)
			if bare, _, _ := strings.Cut(path, "&cursor="); strings.Contains(path, "limit=1") && seen < 200 {
				paths = append(paths, bare+"&cursor="+m[1])
			}
		}
		if strings.Contains(strings.ReplaceAll(body, path, "")+cursor, "secret1") {
			t.Errorf("%s tells of another class: %s %s", path, cursor, body)
		}
	}
}
