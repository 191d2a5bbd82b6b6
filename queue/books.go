package queue

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Books are the totals of a class: every way a job came in and went out. They move in the scripts that move the jobs.
type Books struct {
	Admitted  int64 `json:"admitted"`
	Duplicate int64 `json:"duplicate"`
	Departed  int64 `json:"departed"`
	Returned  int64 `json:"returned"`
	Stale     int64 `json:"stale"`
	Done      int64 `json:"done"`
	Dead      int64 `json:"dead"`
	Expired   int64 `json:"expired"`
	Purged    int64 `json:"purged"`
	Sick      int64 `json:"sick"`
	// Rejected counts refusals by reason.
	Rejected map[Reason]int64 `json:"rejected,omitempty"`
}

// Waiting is the number of jobs that hold a place in a bucket.
func (b Books) Waiting() int64 {
	return b.Admitted + b.Returned - b.Departed - b.Expired - b.Purged - b.Sick
}

// Out is the number of departures that are not settled.
func (b Books) Out() int64 { return b.Departed - b.Returned - b.Done - b.Dead }

func (b *Books) add(h fields) {
	b.Admitted += h.int("admitted")
	b.Duplicate += h.int("duplicate")
	b.Departed += h.int("departed")
	b.Returned += h.int("returned")
	b.Stale += h.int("stale")
	b.Done += h.int("done")
	b.Dead += h.int("dead")
	b.Expired += h.int("expired")
	b.Purged += h.int("purged")
	b.Sick += h.int("sick")
	for _, r := range []Reason{ReasonFull, ReasonClassFull, ReasonWouldExpire, ReasonConflict, ReasonTooLarge} {
		if n := h.int("rejected_" + string(r)); n > 0 {
			if b.Rejected == nil {
				b.Rejected = map[Reason]int64{}
			}
			b.Rejected[r] += n
		}
	}
}

// Books reads the totals of a class over all shards.
func (c *Client) Books(ctx context.Context, class string) (Books, error) {
	var sum Books
	pages, err := c.bookHashes(ctx, class)
	for _, h := range pages {
		sum.add(h)
	}
	return sum, err
}

// books reads the totals shard by shard.
func (c *Client) books(ctx context.Context, class string) ([]Books, error) {
	pages, err := c.bookHashes(ctx, class)
	books := make([]Books, len(pages))
	for i, h := range pages {
		books[i].add(h)
	}
	return books, err
}

func (c *Client) bookHashes(ctx context.Context, class string) ([]map[string]string, error) {
	pipe := c.rdb.Pipeline()
	calls := make([]*redis.MapStringStringCmd, len(c.tags))
	for i := range c.tags {
		calls[i] = pipe.HGetAll(ctx, c.key(i, "stats", class))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, readError("read the books of class "+class, err)
	}
	pages := make([]map[string]string, len(calls))
	for i, call := range calls {
		pages[i] = call.Val()
	}
	return pages, nil
}
