package changes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

// Query asks for a page of changes, the newest first.
type Query struct {
	// Before leaves out the change with this id and all that came after it; empty leaves out none.
	Before string
	// Class and Target, when not empty, want changes of one class, or of one bucket (class/key).
	Class, Target string
	// Key, when not empty, wants changes of the buckets of this key, of whatever class.
	Key string
	// Who, when not empty, wants changes of one person.
	Who string
	// Sees, when not nil, leaves out the classes for which it is false.
	Sees func(class string) bool
	// Limit of the page, 1 to 1,000; 0 is 100.
	Limit int
}

const (
	limitDefault = 100
	limitMost    = 1000
	readMost     = 1000 // changes that one call looks at
)

// List reads a page. next, when not empty, is where the next one begins: Before of its query. A page of few may be short and
// still have a next one, since no call looks at more than a thousand changes. The error wraps [queue.ErrInvalid] or
// [queue.ErrUnavailable].
func (l *Log) List(ctx context.Context, q Query) (page []Change, next string, err error) {
	limit := cmp.Or(q.Limit, limitDefault)
	switch {
	case limit < 1 || limit > limitMost:
		return nil, "", fmt.Errorf("%w: a limit of %d changes is not between 1 and %d", queue.ErrInvalid, limit, limitMost)
	case q.Before != "" && !isID(q.Before):
		return nil, "", fmt.Errorf("%w: %.40q is no place in the log of changes", queue.ErrInvalid, q.Before)
	}
	if q.Before != "" && strings.Trim(q.Before, "0-") == "" { // nothing is before it, and Redis takes it for a mistake
		return nil, "", nil
	}
	end := "+"
	if q.Before != "" {
		end = "(" + q.Before
	}
	look := int64(readMost)
	if q.Class == "" && q.Key == "" && q.Who == "" && q.Target == "" && q.Sees == nil {
		look = int64(limit) + 1
	}
	entries, err := l.rdb.XRevRangeN(ctx, l.key, end, "-", look).Result()
	if err != nil {
		return nil, "", fmt.Errorf("%w: read the log of changes: %w", queue.ErrUnavailable, err)
	}
	for i, entry := range entries {
		if c, ok := read(entry); ok && q.wants(c) {
			page = append(page, c)
		}
		if i+1 < len(entries) && len(page) == limit || i+1 == readMost {
			return page, entry.ID, nil
		}
	}
	return page, "", nil
}

// sinceMost is how many changes one call of Since tells.
const sinceMost = 100

// Since lists up to a hundred changes behind a place in the log, the oldest first, for somebody who asks again and again, and the
// place to go on from. Behind the empty place there are none: it is wherever the log ends.
func (l *Log) Since(ctx context.Context, place string) (list []Change, next string, err error) {
	var entries []redis.XMessage
	if place == "" {
		place = "0-0"
		entries, err = l.rdb.XRevRangeN(ctx, l.key, "+", "-", 1).Result()
	} else if entries, err = l.rdb.XRangeN(ctx, l.key, "("+place, "+", sinceMost).Result(); err == nil {
		for _, entry := range entries {
			if c, ok := read(entry); ok {
				list = append(list, c)
			}
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("%w: read the log of changes: %w", queue.ErrUnavailable, err)
	}
	if len(entries) > 0 {
		place = entries[len(entries)-1].ID
	}
	return list, place, nil
}

func isID(s string) bool { return regexp.MustCompile(`^[0-9]{1,16}-[0-9]{1,16}$`).MatchString(s) }

func (q Query) wants(c Change) bool {
	return (q.Class == "" || c.Class == q.Class) && (q.Who == "" || c.Who == q.Who) && (q.Target == "" || c.Target == q.Target) &&
		(q.Key == "" || c.Target == c.Class+"/"+q.Key) && (q.Sees == nil || q.Sees(c.Class))
}

// read makes a change of an entry; one that a later build wrote in another way is none.
func read(entry redis.XMessage) (Change, bool) {
	var c Change
	body, ok := entry.Values["change"].(string)
	if !ok || json.Unmarshal([]byte(body), &c) != nil {
		return c, false
	}
	ms, _, _ := strings.Cut(entry.ID, "-")
	at, err := strconv.ParseInt(ms, 10, 64)
	c.ID, c.At = entry.ID, time.UnixMilli(at).UTC()
	return c, err == nil
}
