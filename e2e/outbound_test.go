package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestServiceIsLeftAlone: a service that answers 429 is not called before the time it names, by any worker; then the bucket
// goes on at its rate with the same job, and no attempt has failed.
func TestServiceIsLeftAlone(t *testing.T) {
	const told = 2 * time.Second
	refuses := func(c call) bool { return c.number%10 == 5 && c.nth == 1 }
	s := newSite(t, func(c call) reply {
		if refuses(c) {
			return reply{status: http.StatusTooManyRequests, again: "2"}
		}
		return reply{}
	})
	l := lines{class: "calls", buckets: 3, jobs: 20, interval: 100 * time.Millisecond, more: "retry: {max_attempts: 1}"}
	s.fill(l)
	s.worker()
	s.worker()
	s.drained(l)

	for _, bucket := range l.names() {
		calls := s.up.calls(bucket)
		for i, a := range calls {
			if i == 0 || !refuses(call{bucket, calls[i-1].number, calls[i-1].nth}) {
				continue
			}
			if a.number != calls[i-1].number {
				t.Errorf("bucket %s: after job %d was refused came job %d", bucket, calls[i-1].number, a.number)
			}
			switch gap := a.at.Sub(calls[i-1].answered); {
			case gap < told-time.Millisecond: // the clock of Redis and the one here
				t.Errorf("bucket %s: called %v after it was told 2s", bucket, gap)
			case gap > told+time.Second:
				t.Logf("bucket %s: called %v after it was told 2s", bucket, gap)
			}
		}
		if len(calls) != l.jobs+2 {
			t.Errorf("bucket %s: %d calls for %d jobs, two of which were refused once", bucket, len(calls), l.jobs)
		}
	}
	s.checkPace(l)
	s.checkBooks(l)
}

// TestSecretsStayInWorkers looks for two secrets in every key of Redis, in the logs of the workers and in all that admin
// tells, while and after jobs with them are done, fail, are held and die, of a service that sends back what it gets.
func TestSecretsStayInWorkers(t *testing.T) {
	const fromEnv, fromFile = `canary-env<"&> é`, `canary-file\ +x`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "of-file"), []byte(fromFile+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SPOUT_SECRET_OF_ENV", fromEnv)
	var calls, wrong atomic.Int64
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.Header.Get("X-Env") != fromEnv || r.Header.Get("Authorization") != "Bearer "+fromFile {
			wrong.Add(1)
		}
		w.Header().Set("X-Echo", url.QueryEscape(fromEnv)+" "+base64.StdEncoding.EncodeToString([]byte(fromFile)))
		w.Header().Set("Location", "/"+url.PathEscape(fromFile))
		w.WriteHeader(map[string]int{"/ok": 200, "/bad": 400, "/busy": 429, "/away": 302}[r.URL.Path])
		_, _ = fmt.Fprintf(w, "%s %q %s %s %v", fromEnv, fromEnv, fromFile, base64.StdEncoding.EncodeToString([]byte(fromEnv)), r.Header)
	}))
	t.Cleanup(echo.Close)
	s := newSite(t, nil)
	address := strings.TrimPrefix(echo.URL, "http://")
	s.run("admin", "class", "apply", "-f", write(t, "classes.yaml", `
classes:
  calls:
    capacity: 100
    rate: 100/1s
    retention: 1h
    retry: {max_attempts: 2, backoff: 10ms, max_backoff: 20ms}
    http: {allow_private: true, schemes: [http], hosts: ["`+address+`"], secrets: [of-env, of-file]}
`))
	w := s.worker("--secrets-dir", dir, "--log-level", "debug")
	var refs []string
	for _, path := range []string{"ok", "bad", "busy", "away"} {
		payload := fmt.Sprintf(`{"url":"%s/%s","headers":{"X-Env":"{{secret:of-env}}","Authorization":"Bearer {{secret:of-file}}"}}`, echo.URL, path)
		out := s.run("producer", "enqueue", "--class", "calls", "--key", path, "--id", path, "--payload", payload, "-o", "json")
		_, rest, _ := strings.Cut(out, `"ref":"`)
		ref, _, _ := strings.Cut(rest, `"`)
		refs = append(refs, ref)
	}
	until(t, "two jobs are dead, one is done and one is held", func() bool {
		b, ok := s.books("calls")
		return ok && b.Dead == 2 && b.Done == 1 && calls.Load() >= 6
	})
	seen := s.everything(t.Context())
	for _, ref := range refs {
		seen += s.run("admin", "job", "get", ref) + s.run("admin", "job", "get", ref, "-o", "json")
	}
	seen += s.run("admin", "dead", "ls", "calls", "-o", "json") + s.run("admin", "bucket", "ls", "calls", "-o", "json") + s.run("admin", "class", "get", "calls")
	w.stop()
	seen += w.log.String() + s.everything(t.Context())

	if wrong.Load() > 0 {
		t.Errorf("%d of %d calls came without their secrets", wrong.Load(), calls.Load())
	}
	if !strings.Contains(seen, "{{secret:of-env}}") || !strings.Contains(seen, "[secret:of-file]") {
		t.Error("what was looked at has neither the jobs nor their results")
	}
	for _, secret := range []string{fromEnv, fromFile} {
		for _, form := range []string{
			secret, fmt.Sprintf("%q", secret), url.QueryEscape(secret), url.PathEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret)),
		} {
			if at := strings.Index(seen, form); at >= 0 {
				t.Errorf("%q was seen: …%s…", form, seen[max(at-200, 0):min(at+200, len(seen))])
			}
		}
	}
	for _, piece := range []string{"canary-env", "canary-file"} {
		if at := strings.Index(seen, piece); at >= 0 {
			t.Errorf("%q was seen: …%s…", piece, seen[max(at-200, 0):min(at+200, len(seen))])
		}
	}
}

// everything is all that is in Redis, as text.
func (s *site) everything(ctx context.Context) string {
	s.tb.Helper()
	var all strings.Builder
	keys := s.rdb.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		key := keys.Val()
		text, err := s.content(ctx, key)
		if err != nil {
			s.tb.Fatalf("read %s: %v", key, err)
		}
		_, _ = io.WriteString(&all, key+"\n"+text+"\n")
	}
	if err := keys.Err(); err != nil || all.Len() == 0 {
		s.tb.Fatalf("redis is empty or away: %v", err)
	}
	return all.String()
}

func (s *site) content(ctx context.Context, key string) (string, error) {
	kind, err := s.rdb.Type(ctx, key).Result()
	if err != nil {
		return "", err
	}
	var value any
	switch kind {
	case "none": // it has gone meanwhile
		return "", nil
	case "string":
		value, err = s.rdb.Get(ctx, key).Result()
	case "hash":
		value, err = s.rdb.HGetAll(ctx, key).Result()
	case "list":
		value, err = s.rdb.LRange(ctx, key, 0, -1).Result()
	case "set":
		value, err = s.rdb.SMembers(ctx, key).Result()
	case "zset":
		value, err = s.rdb.ZRangeWithScores(ctx, key, 0, -1).Result()
	case "stream":
		value, err = s.rdb.XRange(ctx, key, "-", "+").Result()
	default:
		err = fmt.Errorf("a %s is not known here", kind)
	}
	if err == redis.Nil { //nolint:errorlint // as the client returns it
		err = nil
	}
	return fmt.Sprint(value), err
}
