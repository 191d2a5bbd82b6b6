package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/cmd/internal/ops"
	"github.com/spout-queue/spout/cmd/internal/progress"
	"github.com/spout-queue/spout/cmd/producer/internal/bulk"
	"github.com/spout-queue/spout/queue"
)

func bulkCommand(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "bulk", Usage: "put jobs from a file into their buckets",
		Description: `The file has one job per line:
{"class","key","id"?,"type"?,"payload","max_wait"?,"not_before"?}
max_wait is a duration (10m), not_before a time in RFC 3339. Jobs of one bucket are admitted in the order of the file. While
one waits for room, those of other buckets go on, up to 10,000 lines or 64 MiB ahead.

Bad lines are listed in the summary, the others go in, and the exit status is 65. Jobs of a bucket that is draining are listed
too, since no waiting helps them, and make it 75. Jobs left out by --on-full skip make it 1, a full bucket with --on-full
fail 75. While Redis is away, calls are repeated for 30 s with the same ids, then the exit status is 69. Jobs without an id
are new jobs each time the file is sent; those with one are duplicates then, which is fine.
With -o json standard output has one receipt or rejection per line answered, with the number of the line.`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "`FILE` of jobs, one JSON object per line; - is standard input (required)"},
			&cli.StringFlag{Name: "on-full", Value: string(bulk.Wait), Usage: "`ACTION` when there is no room: wait (as told), skip the job, or fail"},
			ackFlag(),
			storeFlag(),
			&cli.IntFlag{Name: "batch", Value: 100, Usage: "most `JOBS` of one call, 1 to 100"},
		}, ops.Flags()...),
		Run: runBulk,
	})
}

// door is where the jobs of this program come in, for metrics.
const door = "cli"

// awayPatience is how long a call is repeated while Redis does not answer.
const awayPatience = 30 * time.Second

func runBulk(ctx context.Context, s *command.Session) error {
	onFull := bulk.OnFull(s.Flags.String("on-full"))
	batch := s.Flags.Int("batch")
	switch {
	case s.Flags.String("file") == "":
		return exit.Usagef("--file is missing; see producer bulk -h")
	case onFull != bulk.Wait && onFull != bulk.Skip && onFull != bulk.Fail:
		return s.Wrong("on-full", fmt.Errorf("%q is none of wait, skip, fail", onFull))
	case batch < 1 || batch > 100:
		return s.Wrong("batch", fmt.Errorf("%d is not between 1 and 100", batch))
	}
	ack, err := ackOf(s)
	if err != nil {
		return err
	}
	input, err := open(s, s.Flags.String("file"))
	if err != nil {
		return s.Wrong("file", err)
	}
	defer input.Close() //nolint:errcheck // only read
	s.Door = door
	shown, err := ops.Open(ctx, s, "producer")
	if err != nil {
		return err
	}
	defer shown.Close(ctx)
	client, err := s.Open(ctx)
	if err != nil {
		return err
	}
	shown.Watch(ops.Probes{})
	ctx, trace, ended := shown.Trace.Run(ctx, "bulk")
	defer ended()
	bar := progress.New(s.Stderr, size(input))
	sum, err := bulk.Run(ctx, client, input, bulk.Options{
		OnFull: onFull, Batch: batch, Ack: ack, Trace: trace, Patience: awayPatience,
		Answer: printer(s), Progress: show(bar), Log: slog.New(bar.Clearing(s.Log.Handler())),
	})
	bar.Done()
	summarize(s, &sum)
	return conclude(&sum, err)
}

// show draws how many lines are answered, how fast, and how much of the input they are.
func show(bar progress.Bar) func(bulk.Summary) {
	start := time.Now()
	return func(sum bulk.Summary) {
		rate := float64(sum.Answered()) / max(time.Since(start), time.Millisecond).Seconds()
		bar.Show(fmt.Sprintf("%d jobs, %.0f/s", sum.Answered(), rate), sum.Bytes)
	}
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

// printer writes the answers for a program that reads them.
func printer(s *command.Session) func(int, queue.Receipt, error) error {
	return func(number int, receipt queue.Receipt, err error) error {
		if err != nil {
			return s.Object(answer.OfLine{Line: number, Answer: answer.Rejection{Err: err}})
		}
		return s.Object(answer.OfLine{Line: number, Answer: receipt})
	}
}

// summarize tells what became of the lines: on standard output for people, on standard error when a program reads that.
func summarize(s *command.Session, sum *bulk.Summary) {
	var b strings.Builder
	for _, bad := range sum.BadLines {
		fmt.Fprintf(&b, "line %d: %v\n", bad.Number, bad.Err)
	}
	if more := sum.Bad + sum.Closed - len(sum.BadLines); more > 0 {
		fmt.Fprintf(&b, "and %d more such lines\n", more)
	}
	fmt.Fprintf(&b, "admitted %d, duplicate %d", sum.Admitted, sum.Duplicate)
	for _, reason := range sum.Reasons() {
		fmt.Fprintf(&b, ", %s %d", reason, sum.Rejected[reason])
	}
	if sum.Unanswered > 0 {
		fmt.Fprintf(&b, ", without an answer %d", sum.Unanswered)
	}
	b.WriteByte('\n')
	to := s.Stdout
	if s.JSON() {
		to = s.Stderr
	}
	_, _ = io.WriteString(to, b.String()) // the exit status says the most important
}

// conclude is the exit status, the worst first. What ended the run is for standard error, also when a program reads the
// answers: those are one per line of the file.
func conclude(sum *bulk.Summary, err error) error {
	switch {
	case errors.Is(err, bulk.ErrInput):
		return &exit.Error{Status: exit.IO, Err: err}
	case err != nil:
		return &exit.Error{Status: answer.Exit(err), Err: err}
	case sum.Bad > 0:
		return exit.Silent(exit.Data)
	case sum.Closed > 0:
		return exit.Silent(exit.TryLater)
	case sum.Skipped > 0:
		return exit.Silent(exit.Found)
	}
	return nil
}
