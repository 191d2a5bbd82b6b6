package queue

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Auditor compares the books of all classes with what is there, again and again, for metrics. It reads every bucket, so one
// for an installation is enough, and a few minutes are often enough.
type Auditor struct {
	c   *Client
	log *slog.Logger
	off *prometheus.GaugeVec
	at  prometheus.Gauge
}

// NewAuditor registers its metrics with reg. log gets what does not balance.
func NewAuditor(reg prometheus.Registerer, c *Client, log *slog.Logger) *Auditor {
	with := promauto.With(reg)
	return &Auditor{
		c: c, log: log,
		off: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "spout_books_off", Help: "What does not balance in the books of a class (see admin audit), at the last audit.",
		}, []string{"class"}),
		at: with.NewGauge(prometheus.GaugeOpts{
			Name: "spout_audit_timestamp_seconds", Help: "When the books of all classes were last audited, Unix time; 0 never.",
		}),
	}
}

// Run audits until ctx ends, the first time at once.
func (a *Auditor) Run(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := a.audit(ctx); err != nil && ctx.Err() == nil {
			a.log.LogAttrs(ctx, slog.LevelWarn, "books could not be audited", slog.Any("error", err))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// audit goes through all classes once. Those that are gone have no books.
func (a *Auditor) audit(ctx context.Context) error {
	classes, err := a.c.Classes().List(ctx)
	if err != nil {
		return err
	}
	off := map[string]int{}
	for _, class := range classes {
		accounts, err := a.c.Audit(ctx, class.Name)
		if err != nil {
			return err
		}
		off[class.Name] = 0
		for _, account := range accounts {
			off[class.Name] += len(account.Off)
			for _, what := range account.Off {
				a.log.LogAttrs(ctx, slog.LevelError, "the books of a class are off",
					slog.String("class", class.Name), slog.Int("shard", account.Shard), slog.String("off", what))
			}
		}
	}
	a.off.Reset()
	for class, n := range off {
		a.off.WithLabelValues(class).Set(float64(n))
	}
	a.at.SetToCurrentTime()
	return nil
}
