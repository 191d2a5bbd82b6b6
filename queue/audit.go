package queue

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// Account is both sides of the books of one class in one shard (law 5): the totals, and what there is.
type Account struct {
	Class string `json:"class"`
	Shard int    `json:"shard"`
	Books Books  `json:"books"`
	// Line, Later (delayed and parked), Out and Dead are the jobs that are there.
	Line  int64 `json:"line"`
	Later int64 `json:"later"`
	Out   int64 `json:"out"`
	Dead  int64 `json:"dead"`
	// Moved is how much was booked while a class too large to be counted at one moment was counted: what is off by no
	// more than that may be no fault. Zero for most.
	Moved int64 `json:"moved"`
	// Off says what does not balance, nothing when all does.
	Off []string `json:"off,omitempty"`
}

// Audit compares the books of a class with what is there, shard by shard, on a live system. Classes of up to 500 buckets
// and 1000 jobs out in a shard are counted at one moment; larger ones part by part, several times, until nothing moves
// meanwhile or patience ends.
func (c *Client) Audit(ctx context.Context, class string) ([]Account, error) {
	if _, err := c.Classes().Get(ctx, class); err != nil {
		return nil, err
	}
	accounts := make([]Account, len(c.tags))
	for shard := range c.tags {
		var err error
		if accounts[shard], err = c.auditShard(ctx, shard, class); err != nil {
			return nil, err
		}
	}
	return accounts, nil
}

const auditTries = 5

func (c *Client) auditShard(ctx context.Context, shard int, class string) (Account, error) {
	var best Account
	for try := range auditTries {
		a, err := c.count(ctx, shard, class)
		if err != nil {
			return a, err
		}
		if try == 0 || a.Moved < best.Moved {
			best = a
		}
		if best.Moved == 0 {
			break
		}
	}
	best.compare()
	return best, nil
}

// count reads both sides once.
func (c *Client) count(ctx context.Context, shard int, class string) (Account, error) {
	r, err := c.run(ctx, c.scripts.audit, shard, "audit class "+class, class)
	if err != nil {
		return Account{}, err
	}
	a := Account{
		Class: class, Shard: shard, Line: r.int(2), Later: r.int(3), Out: r.int(4), Dead: r.int(5), Books: readBooks(r[7:]),
	}
	if flight := r.int(6); flight >= 0 && flight != a.Out {
		a.Off = append(a.Off, fmt.Sprintf("buckets count %d jobs out, workers have %d", flight, a.Out))
	}
	if r.int(0) == 1 {
		return a, nil
	}
	return c.countParts(ctx, shard, class, a)
}

// countParts counts a class that is too large for one call.
func (c *Client) countParts(ctx context.Context, shard int, class string, a Account) (Account, error) {
	a.Line, a.Later, a.Out = 0, 0, 0
	before := a.Books
	seen := map[string]bool{}
	err := c.Classes().eachBucket(ctx, shard, class, func(names []string) error {
		args := []any{class}
		for _, name := range names {
			if !seen[name] {
				seen[name] = true
				args = append(args, name)
			}
		}
		if len(args) == 1 {
			return nil
		}
		r, err := c.run(ctx, c.scripts.audit, shard, "audit class "+class, args...)
		a.Line += r.int(2)
		a.Later += r.int(3)
		return err
	})
	if err != nil {
		return a, err
	}
	if a.Out, err = c.countOut(ctx, shard, class); err != nil {
		return a, err
	}
	r, err := c.run(ctx, c.scripts.audit, shard, "audit class "+class, class)
	if err != nil {
		return a, err
	}
	a.Dead, a.Books = r.int(5), readBooks(r[7:])
	a.Moved = a.Books.moves() - before.moves()
	return a, nil
}

// outBucket finds the bucket in what a worker has out, see OUT_ENTRY in prelude.lua.
var outBucket = regexp.MustCompile(`^\d+ \d+ +(.*)$`)

func (c *Client) countOut(ctx context.Context, shard int, class string) (int64, error) {
	workers, err := c.rdb.HKeys(ctx, c.tags[shard]+":workers").Result()
	if err != nil {
		return 0, readError("read the workers", err)
	}
	var n int64
	for _, worker := range workers {
		entries, err := c.rdb.HVals(ctx, c.key(shard, "out", worker)).Result()
		if err != nil {
			return 0, readError("read what worker "+worker+" has out", err)
		}
		for _, entry := range entries {
			if of := outBucket.FindStringSubmatch(entry); of != nil && strings.HasPrefix(of[1], class+"/") {
				n++
			}
		}
	}
	return n, nil
}

// compare fills Off.
func (a *Account) compare() {
	check := func(what string, booked, there int64) {
		if diff := booked - there; diff > a.Moved || -diff > a.Moved {
			a.Off = append(a.Off, fmt.Sprintf("the books say %d jobs %s, there are %d", booked, what, there))
		}
	}
	check("wait", a.Books.Waiting(), a.Line+a.Later)
	check("are out", a.Books.Out(), a.Out)
	check("are dead", a.Books.DeadKept(), a.Dead)
}
