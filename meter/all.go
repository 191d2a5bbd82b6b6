package meter

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// mostClaims of one CheckAll, so that one call does not hold Redis for long.
const mostClaims = 100

// Claim is one of several calls that [CheckAll] decides together.
type Claim struct {
	// Meter and Key say whose units.
	Meter *Meter
	Key   string
	// Cost is 0 to 2^53 units.
	Cost int64
}

// Decisions is the answer of [CheckAll].
type Decisions struct {
	// Conform: every claim conforms, or would if its meter were not in shadow mode, and the others were counted. Otherwise
	// nothing was taken.
	Conform bool
	// Each is the decision of each claim, in order. Of those that conform while another refused, nothing was taken.
	Each []Decision
	// Refused are the indices of the claims that refused.
	Refused []int
	// RetryAfter is the longest of the refusals, 0 when Conform or Never.
	RetryAfter time.Duration
	// Never: a claim can never conform.
	Never bool
}

// CheckAll decides 1 to 100 claims at once, all or nothing, in one round trip: a user's limit and an address's and the
// one over everything. The meters must have the same store, and no meter and key may come twice.
//
// On a Redis cluster one call reaches one hash slot: the keys need a common tag, such as "user:{7}" and "address:{7}",
// and one key under several limits always has one. A mixture that cannot share a slot is an error that wraps [ErrInvalid].
// Denial caches and leases take no part. While Redis is away, one meter that is [AwayClosed] closes all. Errors are those
// of [Meter.Check].
func CheckAll(ctx context.Context, claims ...Claim) (Decisions, error) {
	if err := validClaims(claims); err != nil {
		return Decisions{}, err
	}
	asked := make([]claim, len(claims))
	for i, c := range claims {
		asked[i] = claim{keeper: c.Meter.keeper, key: c.Key, cost: c.Cost, must: !c.Meter.options.Shadow}
	}
	answers, err := claims[0].Meter.store.all(ctx, asked)
	if errors.Is(err, ErrUnavailable) {
		return allAway(ctx, claims, asked, err)
	}
	if err != nil {
		return Decisions{}, err
	}
	return together(claims, answers), nil
}

// together sums up answers, counts them, and lets those of shadow mode pass.
func together(claims []Claim, answers []answer) Decisions {
	all := Decisions{Conform: true, Each: make([]Decision, len(claims))}
	for i, a := range answers {
		if a.verdict == refused && !claims[i].Meter.options.Shadow {
			all.Conform = false
			all.Refused = append(all.Refused, i)
		}
	}
	for i, a := range answers {
		cost := claims[i].Cost
		if a.verdict == conforming && !all.Conform {
			cost = 0 // it was only looked at
		}
		claims[i].Meter.conclude(&a, cost, &all.Each[i])
	}
	for _, i := range all.Refused {
		all.RetryAfter = max(all.RetryAfter, all.Each[i].RetryAfter)
		all.Never = all.Never || all.Each[i].Never
	}
	if all.Never {
		all.RetryAfter = 0
	}
	return all
}

// allAway is CheckAll without the store: the local shares decide together, and open meters pass.
func allAway(ctx context.Context, claims []Claim, asked []claim, cause error) (Decisions, error) {
	for _, c := range claims {
		if c.Meter.options.Away == AwayClosed {
			c.Meter.counts.add(awayClosed)
			return Decisions{}, cause
		}
	}
	answers := make([]answer, len(claims))
	var local []claim
	var places []int
	for i, c := range claims {
		if c.Meter.options.Away == AwayOpen {
			c.Meter.counts.add(awayOpen)
			answers[i] = answer{verdict: conforming, away: true}
			continue
		}
		c.Meter.counts.add(awayLocal)
		asked[i].keeper = c.Meter.local.keeper
		local, places = append(local, asked[i]), append(places, i)
	}
	if local != nil {
		shares, err := claims[places[0]].Meter.local.memory.all(ctx, local)
		if err != nil {
			return Decisions{}, err
		}
		for i, a := range shares {
			a.away = true
			answers[places[i]] = a
		}
	}
	return together(claims, answers), nil
}

func validClaims(claims []Claim) error {
	if len(claims) < 1 || len(claims) > mostClaims {
		return fmt.Errorf("%w: %d claims are not 1 to %d", ErrInvalid, len(claims), mostClaims)
	}
	type identity struct{ meter, key string }
	seen := make(map[identity]bool, len(claims))
	for i, c := range claims {
		if c.Meter == nil {
			return fmt.Errorf("%w: claim %d has no meter", ErrInvalid, i)
		}
		if err := valid(c.Key, c.Cost); err != nil {
			return fmt.Errorf("claim %d: %w", i, err)
		}
		id := identity{c.Meter.id, c.Key}
		switch {
		case c.Meter.store != claims[0].Meter.store:
			return fmt.Errorf("%w: claim %d has another store than the first", ErrInvalid, i)
		case seen[id]:
			return fmt.Errorf("%w: claim %d is a second one on key %q under the same rate; add up their costs", ErrInvalid, i, clip(c.Key))
		}
		seen[id] = true
	}
	return nil
}
