// Package changes keeps the log of what operators changed: who, what, before and after.
package changes

import (
	"context"
	"encoding/json"
	"time"

	"github.com/redis/go-redis/v9"
)

// Change is one thing that somebody changed.
type Change struct {
	// ID is its place in the log, for the next page.
	ID string    `json:"id,omitzero"`
	At time.Time `json:"at,omitzero"`
	// Who did it, by which Door: cli, http or dashboard.
	Who  string `json:"who"`
	Door string `json:"door"`
	// Action, such as pause or put class, and what it was done to: class, class/key, or a job's ref.
	Action string `json:"action"`
	Target string `json:"target"`
	// Class that the target belongs to.
	Class string `json:"class"`
	// Before and After are what changed, as JSON; null for what was not there.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	// Error says why it was not done, or only in part.
	Error string `json:"error,omitempty"`
}

// Log is the log of one installation, the newest ten thousand changes or so. It is safe for concurrent use.
type Log struct {
	rdb redis.UniversalClient
	key string
}

// Open returns the log of the installation with a prefix. It asks Redis nothing.
func Open(rdb redis.UniversalClient, prefix string) *Log {
	return &Log{rdb, "{" + prefix + ":0}:changes"}
}

// Most is about how many changes are kept.
const Most = 10_000

// Add writes a change. ID and At are Redis's. Of Before and After, which never hold a payload or a secret, it keeps the members
// that differ, up to 4 KiB each.
func (l *Log) Add(ctx context.Context, c Change) error {
	body, err := json.Marshal(trim(c))
	if err != nil {
		return err
	}
	return l.rdb.XAdd(ctx, &redis.XAddArgs{Stream: l.key, MaxLen: Most, Approx: true, Values: []any{"change", body}}).Err()
}
