package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/spout-queue/spout/cmd/producer/internal/bulk"
)

// progress shows how far a bulk run is: jobs, their rate and, when the size of the input is known, the time left. The zero
// value shows nothing.
type progress struct {
	bar   *progressbar.ProgressBar
	size  int64
	start time.Time
}

// newProgress draws to a terminal, and nowhere else. A size of -1 is not known.
func newProgress(w io.Writer, terminal bool, size int64) progress {
	if !terminal {
		return progress{}
	}
	bar := progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetWidth(20),
		progressbar.OptionSetPredictTime(size >= 0),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetSpinnerChangeInterval(0), // it would need a goroutine
		progressbar.OptionClearOnFinish(),
	)
	return progress{bar, size, time.Now()}
}

// size of the input; -1 where nobody can tell.
func size(input io.Reader) int64 {
	file, ok := input.(*os.File)
	if !ok {
		return -1
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return -1
	}
	return info.Size()
}

func (p progress) show(sum bulk.Summary) {
	if p.bar == nil {
		return
	}
	rate := float64(sum.Answered()) / max(time.Since(p.start), time.Millisecond).Seconds()
	p.bar.Describe(fmt.Sprintf("%d jobs, %.0f/s", sum.Answered(), rate))
	if p.size > 0 {
		_ = p.bar.Set64(min(sum.Bytes, p.size-1)) // the end is done's
	}
}

func (p progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish() // a broken terminal is no reason to fail
	}
}

// clearing takes the bar away before a line is logged over it.
func (p progress) clearing(h slog.Handler) slog.Handler {
	if p.bar == nil {
		return h
	}
	return clearingHandler{h, p.bar}
}

type clearingHandler struct {
	slog.Handler
	bar *progressbar.ProgressBar
}

func (h clearingHandler) Handle(ctx context.Context, r slog.Record) error {
	_ = h.bar.Clear()
	return h.Handler.Handle(ctx, r)
}
