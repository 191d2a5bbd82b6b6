package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

// A breaker opens when so many calls to a host failed in a row, and lets one through after so long.
const (
	breakerFailures = 5
	breakerDelay    = 10 * time.Second
	breakerTrial    = time.Second // how long others wait for that one
	maxBreakers     = 4096
)

// health is what a call says about the host that was called.
type health int

const (
	unknown health = iota // it was not reached, for reasons of our own
	up
	down
)

// breakers are one per host:port, and only for hosts whose last call failed: a host that is well costs nothing. The
// zero value is ready; it is safe for concurrent use.
type breakers struct {
	mu     sync.Mutex
	byAddr map[string]circuitbreaker.CircuitBreaker[any]
}

// enter tells whether addr may be called, and if not, how long until somebody may try. Whoever may must leave.
func (b *breakers) enter(addr string) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	breaker := b.byAddr[addr]
	if breaker == nil || breaker.TryAcquirePermit() {
		return 0, true
	}
	return max(breaker.RemainingDelay(), breakerTrial), false
}

// leave records how a call to addr came out.
func (b *breakers) leave(addr string, h health) {
	b.mu.Lock()
	defer b.mu.Unlock()
	breaker := b.byAddr[addr]
	switch {
	case h == down && breaker == nil:
		b.make(addr).RecordFailure()
	case h == down:
		breaker.RecordFailure()
	case breaker == nil:
	case h == up:
		breaker.RecordSuccess()
		if breaker.IsClosed() {
			delete(b.byAddr, addr)
		}
	case breaker.IsHalfOpen(): // a permit cannot be returned; a new breaker has it again
		b.make(addr).HalfOpen()
	}
}

// make puts a new breaker in the place of addr's; mu is held.
func (b *breakers) make(addr string) circuitbreaker.CircuitBreaker[any] {
	if b.byAddr == nil {
		b.byAddr = make(map[string]circuitbreaker.CircuitBreaker[any])
	}
	if len(b.byAddr) >= maxBreakers {
		for victim := range b.byAddr {
			delete(b.byAddr, victim)
			break
		}
	}
	breaker := circuitbreaker.NewBuilder[any]().WithFailureThreshold(breakerFailures).WithSuccessThreshold(1).WithDelay(breakerDelay).Build()
	b.byAddr[addr] = breaker
	return breaker
}

// openError is why a call is not made while the breaker of its host is open.
func openError(c *call) error {
	return fmt.Errorf("%s: the breaker of %s is open: its last %d calls from this worker failed", c.what(), c.addr(), breakerFailures)
}

// healthOf judges the host by what became of a call to it. An answer that refuses, or asks for patience, is a healthy one.
func healthOf(ctx context.Context, a *answer, err error) health {
	_, refused := asRefusal(err)
	_, late := errors.AsType[*notReadyError](err)
	switch {
	case refused, late, errors.Is(ctx.Err(), context.Canceled):
		return unknown
	case err != nil, a.err != nil, a.status == http.StatusBadGateway, a.status == http.StatusGatewayTimeout:
		return down
	case a.status == http.StatusServiceUnavailable && a.wait == 0:
		return down
	}
	return up
}
