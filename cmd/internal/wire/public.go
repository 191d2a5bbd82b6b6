package wire

import (
	"errors"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

// Public is an error as those may read it who are no operators of the machines: where Redis is, and what it said, is left out. It stays
// that error for errors.Is and errors.As. The whole text is for the log.
func Public(err error) error {
	if !ofRedis(err) {
		return err
	}
	text := "queue: unavailable: Redis cannot be asked; nothing was done"
	switch reasonOf(err) {
	case queue.ReasonStoreFull:
		text = "queue: unavailable: Redis has used its share of memory for jobs; what waits still leaves, come back later"
	case queue.ReasonUnknown:
		text = "queue: unknown outcome: Redis did not reply; it may or may not have been done"
	default: // there is nothing more to say
	}
	return &public{text, err}
}

// ofRedis tells whether an error is about Redis, and not about what was asked for.
func ofRedis(err error) bool {
	for _, kind := range []error{queue.ErrUnavailable, queue.ErrUnknown, queue.ErrUnfit, queue.ErrSchema} {
		if errors.Is(err, kind) {
			return true
		}
	}
	_, network := errors.AsType[*net.OpError](err)
	_, reply := errors.AsType[redis.Error](err)
	return network || reply
}

// public is an error with another text.
type public struct {
	text  string
	cause error
}

func (p *public) Error() string { return p.text }

func (p *public) Unwrap() error { return p.cause }
