package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/spout-queue/spout/queue"
)

// goneMost is how long the messages of a class wait that was in Redis and is not any more.
const goneMost = time.Minute

// spare keeps messages of an unknown class in the stream where their class may come back: a Redis that lost its data has no classes
// until somebody applies them again, one after the other, and what waits here must outlive that. All others are no jobs.
func (l *line) spare(ctx context.Context, results []queue.Result) {
	unknown := func(r queue.Result) bool { return errors.Is(r.Err, queue.ErrUnknownClass) }
	if !slices.ContainsFunc(results, unknown) {
		if slices.ContainsFunc(results, func(r queue.Result) bool { return !unreached(r.Err) }) {
			l.gone = time.Time{}
			l.tellGone(nil)
		}
		return
	}
	why := l.mayReturn(ctx)
	l.tellGone(why)
	if why == nil {
		return
	}
	for i, r := range results {
		if unknown(r) {
			results[i].Err = fmt.Errorf("%w: %w", queue.ErrUnavailable, why)
		}
	}
}

var (
	errGone      = errors.New("it was there a moment ago")
	errNoClasses = errors.New("redis has no classes at all, as after a loss of its data; apply them again")
)

// mayReturn tells why the class may come back; nil when not.
func (l *line) mayReturn(ctx context.Context) error {
	if l.gone.IsZero() {
		l.gone = time.Now()
	}
	if l.interval.Load() != 0 && time.Since(l.gone) < goneMost {
		return errGone
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	list, err := l.b.o.Queue.Classes().List(ctx)
	if err == nil && len(list) == 0 {
		err = errNoClasses
	}
	return err
}

// tellGone tells the log of messages that wait for their class.
func (l *line) tellGone(why error) {
	switch {
	case !l.missing.tell(why != nil):
	case why != nil:
		l.b.o.Log.Warn("the class of messages is not in redis; they wait in the stream", slog.String("class", l.class), slog.String("error", why.Error()))
	default:
		l.b.o.Log.Info("the messages of the class wait for it no longer", slog.String("class", l.class))
	}
}
