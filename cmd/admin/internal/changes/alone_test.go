package changes_test

import (
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/cmd/admin/internal/changes"
	"github.com/spout-queue/spout/internal/redistest"
)

// TestKeyAlone has a key whose last change is behind a page of others.
func TestKeyAlone(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		log := changes.Open(rdb, "spout")
		add(t, log, changes.Change{Action: "pause", Class: "a", Target: "a/k"})
		for range 5 {
			add(t, log, changes.Change{Action: "hold", Class: "b", Target: "b/other"})
		}
		if list, _ := actions(t, log, changes.Query{Key: "k", Limit: 2}); !slices.Equal(list, []string{"pause"}) {
			t.Errorf("by key alone: %v", list)
		}
		if list, next, err := log.List(t.Context(), changes.Query{Before: "0-0"}); list != nil || next != "" || err != nil {
			t.Errorf("before the beginning: %v, %q, %v", list, next, err)
		}
	})
}
