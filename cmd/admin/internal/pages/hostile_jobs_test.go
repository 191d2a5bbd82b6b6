package pages

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/queue"
)

// Whatever a key, an id, a type, a payload, a header, a result or an error says: no page has another element for it.
func TestHostileJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	short, long := s.structures("short", "harmless"), s.structures("long", strings.Repeat("abc", 10_000))
	for i, text := range append(hostile(), strings.Repeat("<b>", 10_000)) {
		got, want := s.structures(fmt.Sprint("class-", i), text), short
		if len(text) > 1000 { // pages cut it off, and say so
			want = long
		}
		for page, list := range got {
			if diff := cmp.Diff(want[page], list); diff != "" {
				t.Errorf("%.80q on page %s (-harmless +hostile):\n%s", text, page, diff)
			}
		}
	}
}

// structures are those of all pages about jobs that hold a text wherever they can.
func (s *site) structures(class, text string) map[string][]string {
	s.t.Helper()
	s.quick(class, 10)
	key, id := text, text
	if queue.CheckKey(text) != nil {
		key = "k"
	}
	if len(id) > 120 || queue.CheckKey(id) != nil || strings.TrimSpace(id) == "" {
		id = "id"
	}
	payload, err := json.Marshal(map[string]any{"url": text, "headers": map[string]string{text: text, "Authorization": text}, "body": text + "?password=x"})
	must(s.t, err)
	dead := s.job(queue.Job{Class: class, Key: key, ID: id + "dead", Type: id, Payload: payload})
	s.end(class, 1, queue.Verdict{Outcome: queue.Failed, Error: text + " https://u:p@host/"})
	done := s.job(queue.Job{Class: class, Key: key, ID: id + "done", Type: id, Payload: payload})
	s.end(class, 1, queue.Verdict{Outcome: queue.Done, Result: []byte(text + " Bearer abcdefghijk")})
	later := s.job(queue.Job{Class: class, Key: key, ID: id + "later", Type: id, Payload: payload, NotBefore: time.Now().Add(time.Hour)})
	waits := s.job(queue.Job{Class: class, Key: key, ID: id, Type: id, Payload: payload})
	must(s.t, s.jobs.Buckets().Pause(s.t.Context(), class, key)) // else it is stalled after a while, which is another page
	bucket := url.Values{"class": {class}, "key": {key}}.Encode()
	list := map[string][]string{}
	for name, path := range map[string]string{
		"bucket": "/bucket?" + bucket, "dead": "/dead?" + bucket, "of the class": "/dead?class=" + class,
		"waits": "/job?ref=" + waits, "later": "/job?ref=" + later, "is dead": "/job?ref=" + dead, "is done": "/job?ref=" + done,
		"purge": "/bucket/purge?" + bucket, "purge dead": "/dead/purge?" + bucket,
	} {
		// How many parts a timeline has depends on the microsecond.
		list[name] = slices.DeleteFunc(structure(s.t, s.ok(admin, path)), func(element string) bool {
			return element == "rect class x y width height" || element == "line class x1 x2 y1 y2"
		})
	}
	return list
}
