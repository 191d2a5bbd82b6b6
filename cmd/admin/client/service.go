package client

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// Audit compares the books of a class, or with an empty name of all, with what is there; see [queue.Client.Audit].
func (c *Client) Audit(ctx context.Context, class string) ([]queue.Account, error) {
	var accounts []queue.Account
	read := sure(wire.Account.ToQueue)
	for account, err := range pages(ctx, c, "audit "+class, "/v1/audit", values("class", class), read) {
		if err != nil {
			return nil, err
		}
		accounts = append(accounts, account)
	}
	return accounts, nil
}

// Workers lists the workers that have not left, by name.
func (c *Client) Workers(ctx context.Context) ([]queue.Worker, error) {
	var workers []queue.Worker
	for worker, err := range pages(ctx, c, "list workers", "/v1/workers", nil, sure(wire.Worker.ToQueue)) {
		if err != nil {
			return nil, err
		}
		workers = append(workers, worker)
	}
	return workers, nil
}

// History tells how a class fared over a span, point by point, the oldest first.
func (c *Client) History(ctx context.Context, class string, span queue.Span) (queue.History, error) {
	history, err := get[wire.History](ctx, c, "read the history of class "+class, "/v1/history", values("class", class, "span", string(span)))
	if err != nil {
		return queue.History{}, err
	}
	return history.ToQueue(), nil
}

// Change is one thing that somebody changed.
type Change struct {
	// ID is its place in the log.
	ID string
	At time.Time
	// Who did it, by which Door: cli, http or dashboard.
	Who, Door string
	// Action, such as pause or put class, and its Target: class, class/key, or a job's ref.
	Action, Target string
	// Class that the target belongs to.
	Class string
	// Before and After are what changed, as JSON; nil for what was not there.
	Before, After json.RawMessage
	// Error says why it was not done, or only in part.
	Error string
}

// Changes goes through the log of changes, the newest first: of a bucket, with an empty key of a class and its buckets, with an
// empty class of all. An error ends it.
func (c *Client) Changes(ctx context.Context, class, key string) iter.Seq2[Change, error] {
	query := values("class", class)
	if key != "" {
		query.Set("target", class+"/"+key)
	}
	return pages(ctx, c, "read the log of changes", "/v1/changes", query,
		sure(func(w wire.LoggedChange) Change { return Change(w) }))
}

// Question asks a meter: the question has the limit.
type Question struct {
	Key string
	// Cost is what is asked for; 0 is 1.
	Cost int64
	// Limit is count/period, as in 100/60s.
	Limit string
	// Capacity is the largest burst of gcra, token_bucket and leaky_bucket; 0 is that of one period.
	Capacity int64
	// Algorithm, as package meter calls it; empty is gcra.
	Algorithm string
	// Peek only looks.
	Peek bool
}

// Decision is what a meter says.
type Decision struct {
	Conform          bool
	Limit, Remaining int64
	// RetryAfter is when the same question would conform, ResetAfter when all of the limit is there again.
	RetryAfter, ResetAfter time.Duration
	// Never: the cost is above what the limit can ever bear.
	Never bool
}

// Check asks a meter. It is sent once: a lost reply may have taken its cost.
func (c *Client) Check(ctx context.Context, q Question) (Decision, error) {
	ask := wire.Question{Key: q.Key, Limit: q.Limit, Capacity: q.Capacity, Algorithm: q.Algorithm, Peek: q.Peek}
	if q.Cost != 0 {
		ask.Cost = &q.Cost
	}
	w, err := post[wire.Decision](ctx, c, "check meter "+q.Key, "/v1/meter/check", nil, ask)
	d := Decision{
		Conform: w.Conform, Limit: w.Limit, Remaining: w.Remaining, Never: w.Never, ResetAfter: time.Duration(w.ResetAfterMS) * time.Millisecond,
	}
	if w.RetryAfterMS != nil {
		d.RetryAfter = time.Duration(*w.RetryAfterMS) * time.Millisecond
	}
	return d, err
}
