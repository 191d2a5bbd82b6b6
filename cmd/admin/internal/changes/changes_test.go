package changes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/cmd/admin/internal/changes"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

func add(t *testing.T, log *changes.Log, c changes.Change) {
	t.Helper()
	if err := log.Add(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// actions goes through all pages of a query.
func actions(t *testing.T, log *changes.Log, q changes.Query) (list []string, pages int) {
	t.Helper()
	for {
		page, next, err := log.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range page {
			list = append(list, c.Action)
		}
		if pages++; next == "" {
			return list, pages
		}
		q.Before = next
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		log := changes.Open(rdb, "spout")
		if list, _ := actions(t, log, changes.Query{}); list != nil {
			t.Errorf("an empty log has %v", list)
		}
		var want, ofB []string
		for i := range 25 {
			class := "abc"[i%3 : i%3+1]
			add(t, log, changes.Change{Who: "ann", Door: "cli", Action: fmt.Sprint(i), Target: class + "/k", Class: class})
			want = append([]string{fmt.Sprint(i)}, want...)
			if class == "b" {
				ofB = append([]string{fmt.Sprint(i)}, ofB...)
			}
		}
		for limit, pages := range map[int]int{0: 1, 1: 25, 5: 5, 10: 3, 24: 2, 25: 1, 1000: 1} {
			list, n := actions(t, log, changes.Query{Limit: limit})
			if diff := cmp.Diff(want, list); diff != "" || n != pages {
				t.Errorf("by %d: %d pages, want %d: %s", limit, n, pages, diff)
			}
		}
		for name, q := range map[string]changes.Query{
			"class":  {Class: "b", Limit: 2},
			"target": {Target: "b/k", Limit: 2},
			"key":    {Key: "k", Class: "b", Limit: 2},
			"sees":   {Sees: func(class string) bool { return class == "b" }, Limit: 2},
		} {
			list, _ := actions(t, log, q)
			if diff := cmp.Diff(ofB, list); diff != "" {
				t.Errorf("by %s: %s", name, diff)
			}
		}
		if list, _ := actions(t, log, changes.Query{Key: "k"}); !slices.Equal(list, want) {
			t.Errorf("by key alone: %v", list)
		}
		if list, _ := actions(t, log, changes.Query{Key: "b/k"}); list != nil {
			t.Errorf("by another key: %v", list)
		}
		for _, q := range []changes.Query{{Limit: -1}, {Limit: 1001}, {Before: "x"}, {Before: "1"}, {Before: "+"}, {Before: "1-1 COUNT"}} {
			if _, _, err := log.List(t.Context(), q); !errors.Is(err, queue.ErrInvalid) {
				t.Errorf("%+v: %v", q, err)
			}
		}
	})
}

// TestFewAmongMany has a class with one change, behind more of others than one call looks at.
func TestFewAmongMany(t *testing.T) {
	t.Parallel()
	log := changes.Open(redistest.MiniClient(t), "spout")
	add(t, log, changes.Change{Action: "first", Class: "a"})
	for range 2000 {
		add(t, log, changes.Change{Action: "other", Class: "b"})
	}
	list, pages := actions(t, log, changes.Query{Class: "a"})
	if diff := cmp.Diff([]string{"first"}, list); diff != "" || pages != 3 {
		t.Errorf("%d pages: %s", pages, diff)
	}
}

func TestKeepsWhatDiffers(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("x", 5000) + `"`
	log := changes.Open(redistest.MiniClient(t), "spout")
	for _, test := range []struct{ before, after, wantBefore, wantAfter string }{
		{`{"a":1,"b":[1,2],"c":null}`, `{"a":1,"b":[1,3],"d":0}`, `{"b":[1,2],"c":null}`, `{"b":[1,3],"d":0}`},
		{`{"a":1}`, `{"a":1}`, `{}`, `{}`},
		{``, `{"a":1}`, ``, `{"a":1}`},
		{`{"a":1}`, ``, `{"a":1}`, ``},
		{`1`, `2`, `1`, `2`},
		{`{"a":1,"long":` + long + `}`, `{"a":2,"long":` + long + `}`, `{"a":1}`, `{"a":2}`},
		{long, `{}`, `{"omitted":"too long for the log of changes","bytes":5002}`, `{}`},
	} {
		began := time.Now().Add(-time.Minute)
		add(t, log, changes.Change{
			Who: "ann", Door: "http", Action: "put class", Target: "a", Class: "a", Before: json.RawMessage(test.before),
			After: json.RawMessage(test.after), Error: strings.Repeat("é", 2000),
		})
		page, _, err := log.List(t.Context(), changes.Query{Limit: 1})
		if err != nil || len(page) != 1 {
			t.Fatalf("%d, %v", len(page), err)
		}
		c := page[0]
		if string(c.Before) != test.wantBefore || string(c.After) != test.wantAfter {
			t.Errorf("%.50s and %.50s: kept are %s and %s", test.before, test.after, c.Before, c.After)
		}
		if len(c.Error) > 1100 || !strings.HasSuffix(c.Error, "é…") || c.ID == "" || c.At.Before(began) || c.Who != "ann" || c.Door != "http" {
			t.Errorf("it is %+v", c)
		}
	}
}

// TestBounded wants a log that does not grow for ever.
func TestBounded(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	log := changes.Open(rdb, "spout")
	pipe := rdb.Pipeline()
	for range changes.Most + 500 {
		pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: "{spout:0}:changes", Values: []any{"change", `{"action":"old"}`}})
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	add(t, log, changes.Change{Action: "new"})
	if n := rdb.XLen(t.Context(), "{spout:0}:changes").Val(); n > changes.Most+200 {
		t.Errorf("it has %d changes", n)
	}
}

// TestSince wants each change told once to who asks again and again, and none of before.
func TestSince(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		log := changes.Open(rdb, "spout")
		place := ""
		told := func(want ...string) {
			t.Helper()
			list, next, err := log.Since(t.Context(), place)
			if err != nil {
				t.Fatal(err)
			}
			place = next
			var got []string
			for _, c := range list {
				got = append(got, c.Action)
			}
			if !slices.Equal(got, want) {
				t.Errorf("told %q, want %q", got, want)
			}
		}
		told()
		add(t, log, changes.Change{Action: "first"})
		told("first")
		told()
		add(t, log, changes.Change{Action: "second"})
		add(t, log, changes.Change{Action: "third"})
		told("second", "third")
		place = ""
		told()
	})
}
