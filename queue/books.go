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
	Cancelled int64 `json:"cancelled"` // while they waited
	Dropped   int64 `json:"dropped"`   // by overflow drop-oldest
	Purged    int64 `json:"purged"`
	Sick      int64 `json:"sick"`
	// CancelledOut were cancelled while they were out.
	CancelledOut int64 `json:"cancelled_out"`
	// Retried are the returns that followed a failed attempt; Revived are dead jobs that were sent round again.
	Retried int64 `json:"retried"`
	Revived int64 `json:"revived"`
	// Held are the returns after which a bucket or the class was held, since the called service asked for it.
	Held int64 `json:"held"`
	// DeadDropped were removed by the class's own bounds, DeadPurged by an operator.
	DeadDropped int64 `json:"dead_dropped"`
	DeadPurged  int64 `json:"dead_purged"`
	// Refused counts what was said about departures that were no longer out.
	Refused int64 `json:"refused"`
	// Rejected counts refusals by reason.
	Rejected map[Reason]int64 `json:"rejected,omitempty"`
}

// Waiting is the number of jobs that hold a place in a bucket.
func (b Books) Waiting() int64 {
	return b.Admitted + b.Returned + b.Revived - b.Departed - b.Expired - b.Cancelled - b.Dropped - b.Purged - b.Sick
}

// Out is the number of departures that are not settled.
func (b Books) Out() int64 { return b.Departed - b.Returned - b.Done - b.Dead - b.CancelledOut }

// DeadKept is the number of dead jobs that are kept.
func (b Books) DeadKept() int64 { return b.Dead - b.Revived - b.DeadDropped - b.DeadPurged }

func (b *Books) add(h fields) {
	b.Admitted += h.int("admitted")
	b.Duplicate += h.int("duplicate")
	b.Departed += h.int("departed")
	b.Returned += h.int("returned")
	b.Stale += h.int("stale")
	b.Held += h.int("held")
	b.Done += h.int("done")
	b.Dead += h.int("dead")
	b.Expired += h.int("expired")
	b.Cancelled += h.int("cancelled")
	b.Dropped += h.int("dropped")
	b.Purged += h.int("purged")
	b.Sick += h.int("sick")
	b.CancelledOut += h.int("cancelled_out")
	b.Retried += h.int("retried")
	b.Revived += h.int("revived")
	b.DeadDropped += h.int("dead_dropped")
	b.DeadPurged += h.int("dead_purged")
	b.Refused += h.int("refused")
	for _, r := range []Reason{ReasonFull, ReasonClassFull, ReasonStoreFull, ReasonWouldExpire, ReasonDraining, ReasonConflict, ReasonTooLarge} {
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

// moves counts every way a job came, went or moved.
func (b Books) moves() int64 {
	return b.Admitted + b.Departed + b.Returned + b.Revived + b.Done + b.Dead + b.Expired + b.Cancelled + b.Dropped +
		b.Purged + b.Sick + b.CancelledOut + b.DeadDropped + b.DeadPurged
}

// readBooks reads the fields and values of a script's reply.
func readBooks(r reply) (b Books) {
	h := fields{}
	for i := 0; i+1 < len(r); i += 2 {
		h[r.text(i)] = r.text(i + 1)
	}
	b.add(h)
	return b
}
