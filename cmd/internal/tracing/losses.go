package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// lossesEvery is the time between two words about traces that get lost. A busy worker loses many batches a second while
// their receiver is away; the log is for what matters to jobs.
const lossesEvery = time.Minute

// losses counts the batches of spans that could not be sent. It is safe for concurrent use.
type losses struct {
	log    *slog.Logger
	seldom *rate.Sometimes
	n      atomic.Int64 // since the last word
}

func newLosses(log *slog.Logger) *losses {
	return &losses{log: log, seldom: &rate.Sometimes{Interval: lossesEvery}}
}

// Handle implements [go.opentelemetry.io/otel.ErrorHandler].
func (l *losses) Handle(err error) {
	l.n.Add(1)
	l.seldom.Do(func() {
		l.log.LogAttrs(context.Background(), slog.LevelWarn, "traces could not be sent",
			slog.Int64("batches", l.n.Swap(0)), slog.Any("error", err))
	})
}

// untold is an error when batches were lost that the log does not know of.
func (l *losses) untold() error {
	if n := l.n.Swap(0); n > 0 {
		return fmt.Errorf("%d more batches were lost", n)
	}
	return nil
}
