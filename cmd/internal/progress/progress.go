// Package progress shows people at a terminal how far a long command is.
package progress

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/spout-queue/spout/cmd/internal/command"
)

// Bar is a line that is drawn over again, on a terminal and nowhere else. The zero value shows nothing.
type Bar struct {
	bar  *progressbar.ProgressBar
	size int64
}

// New returns a bar for w that is full at size; -1 is a size that nobody can tell.
func New(w io.Writer, size int64) Bar {
	if !command.IsTerminal(w) {
		return Bar{}
	}
	return Draw(w, size)
}

// Draw is New for a writer that is taken for a terminal.
func Draw(w io.Writer, size int64) Bar {
	bar := progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetWidth(20),
		progressbar.OptionSetPredictTime(size >= 0),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetSpinnerChangeInterval(0), // it would need a goroutine
		progressbar.OptionClearOnFinish(),
	)
	return Bar{bar, size}
}

// Show draws it: a text, and how much of the size is behind.
func (b Bar) Show(text string, done int64) {
	if b.bar == nil {
		return
	}
	b.bar.Describe(text)
	if b.size > 0 {
		_ = b.bar.Set64(min(done, b.size-1)) // the end is Done's
	}
}

// Done takes it away.
func (b Bar) Done() {
	if b.bar != nil {
		_ = b.bar.Finish() // a broken terminal is no reason to fail
	}
}

// Clearing takes the bar away before a line is logged over it.
func (b Bar) Clearing(h slog.Handler) slog.Handler {
	if b.bar == nil {
		return h
	}
	return clearing{h, b.bar}
}

type clearing struct {
	slog.Handler
	bar *progressbar.ProgressBar
}

func (h clearing) Handle(ctx context.Context, r slog.Record) error {
	_ = h.bar.Clear()
	return h.Handler.Handle(ctx, r)
}
