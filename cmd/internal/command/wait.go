package command

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

const (
	defaultPatience = 30 * time.Second
	retryEvery      = 500 * time.Millisecond
	logEvery        = 5 * time.Second
)

// waiter waits for a Redis that is away at the start, as in a deploy that starts everything at once.
type waiter struct {
	patience time.Duration
	address  string
	log      *slog.Logger
}

func (w waiter) wait(ctx context.Context, open func() (*queue.Client, error)) (*queue.Client, error) {
	patience := cmp.Or(w.patience, defaultPatience)
	start := time.Now()
	var logged time.Time
	for {
		client, err := open()
		waited := time.Since(start)
		switch {
		case err == nil:
			return client, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("wait for redis: %w", ctx.Err())
		case !away(err):
			return nil, err
		case waited >= patience:
			return nil, fmt.Errorf("gave up on redis at %s after %v: %w", w.address, waited.Round(time.Second), err)
		case time.Since(logged) >= logEvery:
			logged = time.Now()
			w.log.Warn("waiting for redis", slog.String("address", w.address), slog.String("error", err.Error()),
				slog.Duration("give_up_in", (patience-waited).Round(time.Second)))
		}
		select {
		case <-time.After(min(retryEvery, patience-waited)):
		case <-ctx.Done():
		}
	}
}

// away tells a server that may yet come from one that has said no.
func away(err error) bool {
	if !errors.Is(err, queue.ErrUnavailable) && !errors.Is(err, queue.ErrUnknown) {
		return false
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return false
	}
	if _, replied := errors.AsType[redis.Error](err); !replied {
		return true
	}
	return redis.IsLoadingError(err) || redis.IsMasterDownError(err) || redis.IsClusterDownError(err) ||
		redis.IsMaxClientsError(err) || redis.IsTryAgainError(err)
}
