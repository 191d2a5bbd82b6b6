package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Why a submission or a command was not carried out. [ReasonOf] gives the word that every door of the service uses.
var (
	// ErrInvalid: a class, key, id, type, payload or setting is not allowed. Nothing was changed.
	ErrInvalid = errors.New("queue: invalid")
	// ErrTooLarge: the payload is above the class's max_payload. Nothing was changed.
	ErrTooLarge = errors.New("queue: too large")
	// ErrUnknownClass: there is no such class. Nothing was changed.
	ErrUnknownClass = errors.New("queue: unknown class")
	// ErrDraining: the bucket or its class admits nothing until an operator resumes it. Nothing was changed.
	ErrDraining = errors.New("queue: draining")
	// ErrConflict: the identity belongs to a job of another type or payload. Nothing was changed.
	ErrConflict = errors.New("queue: conflict")
	// ErrNotFound: there is no such job or bucket, or it is gone.
	ErrNotFound = errors.New("queue: not found")
	// ErrUnavailable: Redis could not be reached or refused to work. Nothing was changed.
	ErrUnavailable = errors.New("queue: unavailable")
	// ErrUnknown: the request was sent and no reply came: it may or may not have been carried out. Repeat it with
	// the same id.
	ErrUnknown = errors.New("queue: unknown outcome")
)

// Reason is why a submission was rejected, in the word that every door of the service uses.
type Reason string

// The reasons of this version.
const (
	ReasonFull         Reason = "full"
	ReasonClassFull    Reason = "class_full"
	ReasonStoreFull    Reason = "store_full"
	ReasonWouldExpire  Reason = "would_expire"
	ReasonDraining     Reason = "draining"
	ReasonConflict     Reason = "conflict"
	ReasonInvalid      Reason = "invalid"
	ReasonTooLarge     Reason = "too_large"
	ReasonUnknownClass Reason = "unknown_class"
	ReasonUnavailable  Reason = "unavailable"
	ReasonUnknown      Reason = "unknown"
)

// FullError rejects a submission for which there is no room now: the bucket is full, the class is, or the job would
// wait longer than it may.
type FullError struct {
	// Reason is [ReasonFull], [ReasonClassFull] or [ReasonWouldExpire].
	Reason Reason
	// Class and Key name the bucket.
	Class, Key string
	// RetryAfter is the time until the same submission could be admitted, 0 for now. Several producers refused by one
	// bucket are told times an interval apart. Not known while Paused.
	RetryAfter time.Duration
	// Level and Capacity of the bucket.
	Level, Capacity int
	// Paused: the bucket is closed until an operator resumes it, so nobody can tell a time.
	Paused bool

	interval time.Duration // T of the bucket
	room     time.Time     // when a place should open, the same for all who are refused before then
}

func (e *FullError) Error() string {
	bucket := e.Class + "/" + clip(e.Key)
	when := fmt.Sprintf("retry after %v", e.RetryAfter)
	if e.Paused {
		when = "it is paused, so no time can be told"
	}
	switch e.Reason {
	case ReasonClassFull:
		return fmt.Sprintf("queue: class %s has reached its max_jobs; %s", e.Class, when)
	case ReasonWouldExpire:
		return fmt.Sprintf("queue: bucket %s: the job would wait longer than its max_wait; %s", bucket, when)
	default:
		return fmt.Sprintf("queue: bucket %s is full (%d of %d); %s", bucket, e.Level, e.Capacity, when)
	}
}

// ReasonOf names the reason of an error of this package; [ReasonUnavailable] for any other.
func ReasonOf(err error) Reason {
	if full, ok := errors.AsType[*FullError](err); ok {
		return full.Reason
	}
	if errors.Is(err, errStoreFull) {
		return ReasonStoreFull
	}
	for _, r := range []struct {
		err    error
		reason Reason
	}{
		{ErrInvalid, ReasonInvalid},
		{ErrTooLarge, ReasonTooLarge},
		{ErrUnknownClass, ReasonUnknownClass},
		{ErrConflict, ReasonConflict},
		{ErrDraining, ReasonDraining},
		{ErrUnknown, ReasonUnknown},
	} {
		if errors.Is(err, r.err) {
			return r.reason
		}
	}
	return ReasonUnavailable
}

// SickError rejects a submission to a bucket that is broken in Redis. Other buckets take jobs. It wraps [ErrUnavailable].
type SickError struct{ Class, Key string }

func (e *SickError) Error() string {
	return fmt.Sprintf("%v: bucket %s is broken in Redis and was set aside; see its state and mend it", ErrUnavailable, clip(e.Class+"/"+e.Key))
}

func (e *SickError) Unwrap() error { return ErrUnavailable }

func drainingError(bucket string) error {
	return fmt.Errorf("%w: bucket %s, or its class, admits nothing until it is resumed", ErrDraining, clip(bucket))
}

// errStoreFull marks a submission that came when Redis was at its maxmemory, or at the share of it that is for jobs.
var errStoreFull = errors.New("redis is at its maxmemory")

// redisError says of a failed call whether it can have been carried out. A reply, even an error, proves that it was not
// (scripts check before they write); a connection that was never made proves it too. Anything else is unknown.
func redisError(what string, err error) error {
	reply, isReply := errors.AsType[redis.Error](err)
	op, isOp := errors.AsType[*net.OpError](err)
	switch {
	case isReply && strings.HasPrefix(reply.Error(), "OOM"):
		return fmt.Errorf("%w: %s: %w: %w", ErrUnavailable, what, errStoreFull, err)
	case isReply, isOp && op.Op == "dial", errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrClosed),
		errors.Is(err, errNotSent):
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %s: redis closed the connection before it replied", ErrUnknown, what)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %s: no reply from redis in time: %w", ErrUnknown, what, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnknown, what, err)
}

// errNotSent marks a request that was given up before it was sent.
var errNotSent = errors.New("given up before it was sent")
