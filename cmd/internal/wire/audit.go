package wire

import (
	"encoding/json"
	"time"

	"github.com/spout-queue/spout/queue"
)

// Account is both sides of the books of one class in one shard: the totals, and what there is.
type Account struct {
	Class    string   `json:"class" example:"github-api"`
	Shard    int      `json:"shard"`
	Books    Books    `json:"books"`
	Line     int64    `json:"line"`
	Later    int64    `json:"later"`
	Out      int64    `json:"out"`
	Dead     int64    `json:"dead"`
	Moved    int64    `json:"moved" doc:"How much was booked while a large class was counted: what is off by no more may be no fault."`
	Off      []string `json:"off,omitempty" nullable:"false" doc:"What does not balance."`
	Balanced bool     `json:"balanced"`
}

// FromAccount writes an account down.
func FromAccount(a queue.Account) Account {
	return Account{
		Class: a.Class, Shard: a.Shard, Books: Books(a.Books), Line: a.Line, Later: a.Later, Out: a.Out, Dead: a.Dead,
		Moved: a.Moved, Off: a.Off, Balanced: len(a.Off) == 0,
	}
}

// ToQueue is the inverse of FromAccount.
func (w Account) ToQueue() queue.Account {
	return queue.Account{
		Class: w.Class, Shard: w.Shard, Books: queue.Books(w.Books), Line: w.Line, Later: w.Later, Out: w.Out, Dead: w.Dead,
		Moved: w.Moved, Off: w.Off,
	}
}

// Books are the totals of a class: every way a job came in and went out. They have the fields of [queue.Books].
type Books struct {
	Admitted     int64                  `json:"admitted"`
	Duplicate    int64                  `json:"duplicate"`
	Departed     int64                  `json:"departed"`
	Returned     int64                  `json:"returned"`
	Stale        int64                  `json:"stale"`
	Done         int64                  `json:"done"`
	Dead         int64                  `json:"dead"`
	Expired      int64                  `json:"expired"`
	Cancelled    int64                  `json:"cancelled" doc:"While they waited."`
	Dropped      int64                  `json:"dropped" doc:"By overflow drop-oldest."`
	Purged       int64                  `json:"purged"`
	Sick         int64                  `json:"sick"`
	CancelledOut int64                  `json:"cancelled_out" doc:"While they were out."`
	Retried      int64                  `json:"retried" doc:"Returns that followed a failed attempt."`
	Revived      int64                  `json:"revived" doc:"Dead jobs that were sent round again."`
	Held         int64                  `json:"held" doc:"Returns after which a bucket or the class was held."`
	DeadDropped  int64                  `json:"dead_dropped" doc:"Dead jobs that the class's bounds removed."`
	DeadPurged   int64                  `json:"dead_purged" doc:"Dead jobs that an operator removed."`
	Refused      int64                  `json:"refused" doc:"What was said about departures that were no longer out."`
	Rejected     map[queue.Reason]int64 `json:"rejected,omitempty" doc:"Refusals by reason."`
}

// LoggedChange is one thing that somebody changed, from the log of changes.
type LoggedChange struct {
	ID     string          `json:"id" doc:"Its place in the log."`
	At     time.Time       `json:"at"`
	Who    string          `json:"who"`
	Door   string          `json:"door" doc:"cli, http or dashboard."`
	Action string          `json:"action" example:"pause"`
	Target string          `json:"target" doc:"class, class/key, or a job's ref." example:"github-api/tenant-42"`
	Class  string          `json:"class"`
	Before json.RawMessage `json:"before,omitempty" required:"false" doc:"What it was."`
	After  json.RawMessage `json:"after,omitempty" required:"false" doc:"What it is then."`
	Error  string          `json:"error,omitempty" doc:"Why it was not done, or only in part."`
}

// Question is one check of a meter: the question has the limit.
type Question struct {
	Key       string `json:"key" example:"user-7:login"`
	Cost      *int64 `json:"cost,omitempty" doc:"Default 1."`
	Limit     string `json:"limit" doc:"count/period" example:"100/60s"`
	Capacity  int64  `json:"capacity,omitempty" doc:"Largest burst of gcra, token_bucket and leaky_bucket; that of one period by default."`
	Algorithm string `json:"algorithm,omitempty" doc:"gcra by default."`
	Peek      bool   `json:"peek,omitempty" doc:"Only look: nothing is taken."`
}

// Decision is what a meter says.
type Decision struct {
	Conform      bool   `json:"conform"`
	Limit        int64  `json:"limit"`
	Remaining    int64  `json:"remaining"`
	RetryAfterMS *int64 `json:"retry_after_ms,omitempty" doc:"When the same question would conform."`
	ResetAfterMS int64  `json:"reset_after_ms" doc:"When all of the limit is there again."`
	Never        bool   `json:"never,omitempty" doc:"The cost is above what the limit can ever bear."`
}
