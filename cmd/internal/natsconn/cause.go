package natsconn

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// cause is why the last attempt to connect failed. What nats.go keeps of it, that there is no server, says too little: of a
// certificate that is not trusted, for one.
type cause struct {
	connected atomic.Bool // it was once

	mu   sync.Mutex
	last error
	told time.Time
}

// note tells whether the log is to be told: not before the connection was made once, since who waits for that tells, and then
// seldom.
func (c *cause) note(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !errors.Is(err, nats.ErrNoServers) {
		c.last = err
	}
	if !c.connected.Load() || time.Since(c.told) < logSeldom {
		return false
	}
	c.told = time.Now()
	return true
}

// why there is no connection.
func (c *cause) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		return nats.ErrNoServers
	}
	return c.last
}
