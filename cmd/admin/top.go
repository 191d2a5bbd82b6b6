package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/queue"
)

// topLook is how many buckets of a class are looked at in each shard, those due first.
const topLook = 200

func topCommand(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "top", Usage: "show the fullest buckets, again and again, until interrupted",
		Description: fmt.Sprintf(`Of each class up to %d buckets a shard are looked at, those due first. "Full since" is since when this command has seen the
bucket full without a break; "empties in" is what its line takes at its rate. On a terminal the table is drawn over.`, topLook),
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "every", Value: 2 * time.Second, Usage: "`TIME` between two looks"},
			&cli.IntFlag{Name: "limit", Value: 20, Usage: "most `BUCKETS` to show"},
			&cli.IntFlag{Name: "rounds", DefaultText: "no end", Usage: "end after this `NUMBER` of looks"},
		},
		Run: runTop,
	})
}

func runTop(ctx context.Context, s *command.Session) error {
	if err := needsRedis(s); err != nil {
		return err
	}
	limit, err := limitOf(s)
	if err != nil {
		return err
	}
	every, rounds := s.Flags.Duration("every"), s.Flags.Int("rounds")
	switch {
	case every < 100*time.Millisecond:
		return s.Wrong("every", fmt.Errorf("%v is below 100ms", every))
	case rounds < 0:
		return s.Wrong("rounds", errors.New("it is negative"))
	}
	client, err := s.Open(ctx)
	if err != nil {
		return err
	}
	t := &top{s: s, client: client, limit: limit, fullSince: map[string]time.Time{}}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for round := 1; ; round++ {
		err := t.show(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (round == 1 || round == rounds || !isAway(err)):
			return err
		case err != nil: // who looks on wants to see Redis come back
			s.Log.LogAttrs(ctx, slog.LevelWarn, "redis does not answer; it is asked again", slog.Any("error", err))
		}
		if round == rounds {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// isAway tells that Redis did not answer.
func isAway(err error) bool {
	return errors.Is(err, queue.ErrUnavailable) || errors.Is(err, queue.ErrUnknown)
}

// top remembers what the rounds before have seen.
type top struct {
	s         *command.Session
	client    *queue.Client
	limit     int
	fullSince map[string]time.Time // by bucket
	at        time.Time            // of the last look, by the server's clock
	before    queue.Books
}

// topRow is one bucket of the table.
type topRow struct {
	queue.Bucket
	since time.Time // full since, zero when it is not
}

// show looks once and draws what it saw.
func (t *top) show(ctx context.Context) error {
	standings, err := t.client.Standings(ctx)
	if err != nil {
		return err
	}
	now, err := t.client.Now(ctx)
	if err != nil {
		return err
	}
	rows, err := t.fullest(ctx, standings, now)
	if err != nil {
		return err
	}
	head := t.head(standings, now)
	var b bytes.Buffer
	if command.IsTerminal(t.s.Stdout) && !t.s.JSON() {
		b.WriteString("\x1b[H\x1b[2J") // the upper left corner of an empty screen
	}
	if !t.s.JSON() {
		b.WriteString(head + "\n")
	}
	if err := answer.List(answer.NewPrinter(&b, t.s.JSON()), rows, topColumns(now)...); err != nil {
		return err
	}
	_, err = t.s.Stdout.Write(t.fit(b.Bytes())) // at once, so that it does not flicker
	return err
}

// fit keeps to what the terminal has room for.
func (t *top) fit(text []byte) []byte {
	width, height, ok := command.TerminalSize(t.s.Stdout)
	if !ok || t.s.JSON() {
		return text
	}
	return []byte(cut(string(text), width, height))
}

// cut shortens a table: a wrapped line tears it, and a scrolled one takes its head away. The first line, which says how all
// classes stand, may wrap, and the last one is the cursor's.
func cut(text string, width, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	lines = lines[:min(len(lines), max(3, height-2))]
	for i, line := range lines {
		if runes := []rune(line); i > 0 && len(runes) > width {
			lines[i] = string(runes[:width-1]) + "…"
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// fullest lists the buckets with the highest share of their capacity in use.
func (t *top) fullest(ctx context.Context, standings []queue.Standing, now time.Time) ([]topRow, error) {
	var rows []topRow
	full := map[string]time.Time{}
	for i := range standings {
		if standings[i].Books.Waiting() == 0 {
			continue
		}
		buckets, err := t.client.Buckets().List(ctx, standings[i].Class, topLook)
		switch {
		case errors.Is(err, queue.ErrUnknownClass): // removed meanwhile
			continue
		case err != nil:
			return nil, err
		}
		for _, b := range buckets {
			row := topRow{Bucket: b}
			if b.Level >= b.Capacity {
				row.since = t.fullSince[b.Name()]
				if row.since.IsZero() {
					row.since = now
				}
				full[b.Name()] = row.since
			}
			if b.Level > 0 {
				rows = append(rows, row)
			}
		}
	}
	t.fullSince = full
	slices.SortStableFunc(rows, func(a, b topRow) int {
		return cmp.Or(cmp.Compare(b.share(), a.share()), cmp.Compare(b.Level, a.Level), cmp.Compare(a.Name(), b.Name()))
	})
	return rows[:min(len(rows), t.limit)], nil
}

func (r topRow) share() float64 { return float64(r.Level) / float64(max(1, r.Capacity)) }

// emptiesIn is how long the line takes at its rate.
func (r topRow) emptiesIn() time.Duration {
	if r.Rate.Limit == 0 {
		return 0
	}
	return time.Duration(float64(r.Line) * float64(r.Rate.Period) / float64(r.Rate.Limit))
}

// head is one line about all classes: what waits and is out, and what moved since the last look.
func (t *top) head(standings []queue.Standing, now time.Time) string {
	var sum queue.Books
	var stalled time.Duration
	for i := range standings {
		b := &standings[i].Books
		sum.Admitted += b.Admitted
		sum.Departed += b.Departed
		sum.Done += b.Done
		sum.Dead += b.Dead
		stalled = max(stalled, standings[i].Stalled)
	}
	var waiting, out int64
	for i := range standings {
		waiting += standings[i].Books.Waiting()
		out += standings[i].Books.Out()
	}
	parts := []string{now.Format(time.TimeOnly), fmt.Sprintf("%d classes", len(standings)), fmt.Sprintf("%d jobs wait", waiting), fmt.Sprintf("%d are out", out)}
	if !t.at.IsZero() {
		per := func(a, b int64) float64 { return float64(a-b) / max(now.Sub(t.at).Seconds(), 1e-3) }
		parts = append(parts, fmt.Sprintf("per second: %.1f admitted, %.1f departed, %.1f done, %.1f dead", per(sum.Admitted, t.before.Admitted),
			per(sum.Departed, t.before.Departed), per(sum.Done, t.before.Done), per(sum.Dead, t.before.Dead)))
	}
	if stalled >= time.Second {
		parts = append(parts, fmt.Sprintf("STALLED for %v: no worker takes what is due", stalled.Round(time.Second)))
	}
	t.at, t.before = now, sum
	return strings.Join(parts, "; ")
}

func topColumns(now time.Time) []answer.Column[topRow] {
	return []answer.Column[topRow]{
		{Name: "bucket", Cell: func(r topRow) any { return r.Name() }},
		{Name: "level", Cell: func(r topRow) any { return fmt.Sprintf("%d of %d", r.Level, r.Capacity) }},
		{Name: "full", Cell: func(r topRow) any { return fmt.Sprintf("%.0f%%", 100*r.share()) }},
		{Name: "full since", Cell: func(r topRow) any {
			if r.since.IsZero() {
				return ""
			}
			return now.Sub(r.since).Round(time.Second)
		}},
		{Name: "rate", Cell: func(r topRow) any { return bucketRate(r.Bucket) }},
		{Name: "empties in", Cell: func(r topRow) any { return r.emptiesIn().Round(time.Second) }},
		{Name: "state", Cell: func(r topRow) any { return bucketStatus(r.Bucket) }},
	}
}
