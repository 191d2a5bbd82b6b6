package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// Dead goes through the dead jobs that a query asks for, the newest first; its Limit is the size of one page. Its BeforeRef is not
// for the API. An error ends it.
func (c *Client) Dead(ctx context.Context, q queue.DeadQuery) iter.Seq2[queue.JobState, error] {
	query := values("class", q.Class, "key", q.Key, "before", textOf(q.Before), "limit", orEmpty(q.Limit))
	return pages(ctx, c, "list dead jobs of "+nameOf(q.Class, q.Key), "/v1/dead", query, wire.JobState.ToQueue)
}

// textOf is a time for a query, empty for none.
func textOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(queue.TimeFormat)
}

// DeadGroups tells what the newest dead jobs of a class died of, alike errors together: up to limit groups, 1 to 100; 0 is 20.
func (c *Client) DeadGroups(ctx context.Context, class string, limit int) (queue.DeadGroups, error) {
	groups, err := get[wire.DeadGroups](ctx, c, "group the dead jobs of class "+class, "/v1/dead/groups", values("class", class, "limit", orEmpty(limit)))
	if err != nil {
		return queue.DeadGroups{}, err
	}
	return groups.ToQueue(), nil
}

// Pass is what one pass over dead jobs did.
type Pass struct {
	queue.Revival
	// More: the server stopped before it had seen all, for want of time. Left is not known then.
	More bool
	// Before is by when they had died: those that die later are left alone. Give it to the next pass.
	Before time.Time
}

// RetryDead goes once through the dead jobs of a class, or with a key of one bucket, the oldest first, and sends those round
// again for which there is room; see [queue.DeadJobs.RetryAll]. While there are more or some are left, call it again after
// RetryAfter, with the Before of the first pass; a zero time is now. What went round stays so when it fails.
func (c *Client) RetryDead(ctx context.Context, class, key string, before time.Time) (Pass, error) {
	query := values("class", class, "key", key, "before", textOf(before))
	done, err := post[wire.Revived](ctx, c, "retry dead jobs of "+nameOf(class, key), "/v1/dead/retry", query, nil)
	pass := Pass{Revival: done.ToQueue(), More: err == nil && done.Left == nil, Before: before}
	if some := doneBefore(err); some != nil {
		pass.Retried = some.Retried
	}
	if done.Before != nil {
		pass.Before = time.Time(*done.Before)
	}
	return pass, err
}

// RetryAllDead sends the dead jobs of a class, or with a key of one bucket, round again, the oldest first, and tells on the way what was
// done by then. With wait it goes on, pass after pass, while some find no room in their buckets, until none is left of those that were dead
// when it began; without, each is tried once. The server does it while this listens: end ctx to stop it. What went round stays so, and when the
// answer is cut off some more may have gone round than is told.
func (c *Client) RetryAllDead(ctx context.Context, class, key string, wait bool, progress func(queue.Revival)) (queue.Revival, error) {
	query := values("class", class, "key", key)
	if wait {
		query.Set("wait", "10m") // at a time
	}
	ask := call{
		what: "retry dead jobs of " + nameOf(class, key), method: http.MethodPost, path: "/v1/dead/retry", query: query,
		header: http.Header{"Accept": {"application/x-ndjson"}},
	}
	var sum queue.Revival
	for {
		before := sum.Retried
		last, err := c.revive(ctx, &ask, func(now wire.Revived) {
			sum = now.ToQueue()
			sum.Retried += before
			progress(sum)
		})
		switch {
		case ctx.Err() != nil:
			return sum, ctx.Err()
		case err != nil:
			return sum, err
		case last.Left != nil && (!wait || *last.Left == 0):
			return sum, nil
		}
		if last.Before != nil { // it goes on where it stopped
			query.Set("before", textOf(time.Time(*last.Before)))
		}
	}
}

// revive asks once, and returns the last line of the answer.
func (c *Client) revive(ctx context.Context, ask *call, each func(wire.Revived)) (wire.Revived, error) {
	progress, err := c.listen(ctx, ask)
	if err != nil {
		return wire.Revived{}, err
	}
	defer progress.Close() //nolint:errcheck // only read
	lines := json.NewDecoder(progress)
	for {
		var line wire.Revived
		if err := lines.Decode(&line); err != nil {
			return line, transportError(ask, fmt.Errorf("the answer was cut off: %w", err))
		}
		each(line)
		switch {
		case line.Problem != nil:
			return line, fromProblem(*line.Problem)
		case line.Ended:
			return line, nil
		}
	}
}

// PurgeDead drops the dead jobs of a class, or with a key of one bucket, and tells how many, also when it fails then.
func (c *Client) PurgeDead(ctx context.Context, class, key string) (int, error) {
	return c.purge(ctx, purgeDeadCall(class, key))
}

// WouldPurgeDead is how many jobs PurgeDead would drop.
func (c *Client) WouldPurgeDead(ctx context.Context, class, key string) (int, error) {
	return c.wouldPurge(ctx, purgeDeadCall(class, key))
}

func purgeDeadCall(class, key string) call {
	return call{
		what: "purge dead jobs of " + nameOf(class, key), method: http.MethodPost, path: "/v1/dead/purge", query: values("class", class, "key", key),
		wait: longTime,
	}
}
