package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/spout-queue/spout/meter"
	"github.com/spout-queue/spout/meter/httpmeter"
)

// How many wrong credentials are heard: of one address, and of all together. Beyond that they are told to come back
// later; right ones always pass, or anybody could lock others out.
const (
	guessesOfOne = 10
	guessesOfAll = 300
	guessPeriod  = time.Minute
	addressesFew = 16_384 // remembered at once
)

// TooManyError says that an address, or all together, showed too many wrong credentials.
type TooManyError struct{ RetryAfter time.Duration }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("access: too many wrong credentials; come back in %v", e.RetryAfter.Round(time.Second))
}

// guesses counts wrong credentials.
type guesses struct {
	one, all *meter.Meter
	address  func(*http.Request) string
}

func newGuesses(trusted []netip.Prefix) (*guesses, error) {
	store := meter.MemoryOf(addressesFew)
	one, err1 := meter.New(store, meter.Limit{Capacity: guessesOfOne, Count: guessesOfOne, Period: guessPeriod}, meter.Options{})
	all, err2 := meter.New(store, meter.Limit{Capacity: guessesOfAll, Count: guessesOfAll, Period: guessPeriod}, meter.Options{})
	return &guesses{one, all, httpmeter.ClientAddr(trusted...)}, errors.Join(err1, err2)
}

// wrong counts wrong credentials and returns what to answer: [ErrWrong] or a [TooManyError].
func (g *guesses) wrong(ctx context.Context, r *http.Request) error {
	d, err := meter.CheckAll(ctx, meter.Claim{Meter: g.one, Key: g.address(r), Cost: 1}, meter.Claim{Meter: g.all, Key: "all", Cost: 1})
	switch {
	case err != nil: // more addresses than are remembered
		return &TooManyError{guessPeriod}
	case !d.Conform:
		return &TooManyError{d.RetryAfter}
	}
	return ErrWrong
}
