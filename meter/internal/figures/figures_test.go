package figures_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spout-queue/spout/meter"
	"github.com/spout-queue/spout/meter/internal/figures"
)

var update = flag.Bool("update", false, "write docs/meter.md and its pictures")

const docs = "../../../docs"

// five is the limit of the pictures: 5 a second, and 5 at once where there is a capacity.
func five(a meter.Algorithm) meter.Limit {
	return meter.Limit{Algorithm: a, Capacity: 5, Count: 5, Period: time.Second}
}

type limit struct {
	name string
	meter.Limit
}

func TestFigures(t *testing.T) {
	t.Parallel()
	var limits []limit
	for _, a := range []meter.Algorithm{meter.GCRA, meter.TokenBucket, meter.LeakyBucket, meter.FixedWindow, meter.SlidingLog, meter.SlidingCounter} {
		limits = append(limits, limit{string(a), five(a)})
	}
	mixed := lanes(t, figures.Mixed(), 4*time.Second, limits)
	check(t, "meter/algorithms.svg", figures.Draw("The same calls at 5 a second, under six algorithms", figures.Mixed(), 4*time.Second, time.Second, mixed))

	first := five(meter.FixedWindow)
	first.Align = meter.AlignFirstEvent
	atEdge := lanes(t, figures.Edge(), 2*time.Second, []limit{
		{"fixed-window", five(meter.FixedWindow)},
		{"… from first event", first},
		{"sliding-window-log", five(meter.SlidingLog)},
		{"gcra", five(meter.GCRA)},
		{"gcra, capacity 1", meter.Limit{Capacity: 1, Count: 5, Period: time.Second}},
	})
	check(t, "meter/edge.svg", figures.Draw("Ten calls around the edge of a window of 5", figures.Edge(), 2*time.Second, time.Second, atEdge))

	page, err := os.ReadFile(filepath.Join(docs, "meter.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := between(t, string(page), "algorithms", admittedTable(mixed))
	text = between(t, text, "counter", counterTable(t))
	check(t, "meter.md", text)
}

// lanes runs a trace through each limit. Each in a bubble of its own: they begin at a full second.
func lanes(t *testing.T, trace []time.Duration, length time.Duration, limits []limit) []figures.Lane {
	t.Helper()
	all := make([]figures.Lane, len(limits))
	for i, l := range limits {
		synctest.Test(t, func(t *testing.T) {
			var err error
			if all[i], err = figures.Run(t.Context(), l.name, l.Limit, trace, length); err != nil {
				t.Fatal(err)
			}
		})
	}
	return all
}

func admittedTable(lanes []figures.Lane) string {
	var b strings.Builder
	b.WriteString("| | admitted | refused | most in any second |\n|---|---|---|---|\n")
	for _, l := range lanes {
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", l.Name, len(l.Admitted), len(l.Refused), l.Most(time.Second))
	}
	return b.String()
}

func counterTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| limit | calls | admitted (by the log) | admitted above the limit | refused below it | most in any period |\n|---|---|---|---|---|---|\n")
	for _, count := range []int64{60, 120, 240} {
		synctest.Test(t, func(t *testing.T) {
			e, err := figures.Judge(t.Context(), count, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "| %d a minute | %d | %d (%d) | %d: %.2f %% | %d: %.2f %% | %d: %+.0f %% |\n", count, e.Arrivals, e.Admitted, e.LogAdmitted,
				e.WronglyAdmitted, percent(e.WronglyAdmitted, e.Arrivals), e.WronglyRefused, percent(e.WronglyRefused, e.Arrivals),
				e.Most, percent(e.Most, int(count))-100)
		})
	}
	return b.String()
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(whole) }

// between puts a text between the marks of that name.
func between(t *testing.T, page, name, text string) string {
	t.Helper()
	begin, end := "<!-- generated: "+name+" -->\n", "<!-- end -->\n"
	head, rest, ok := strings.Cut(page, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("docs/meter.md has no place for %q", name)
	}
	return head + begin + text + end + tail
}

// check compares a file below docs with what it should be, or writes it.
func check(t *testing.T, name, want string) {
	t.Helper()
	path := filepath.Join(docs, name)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/%s is not what the meters do now: go generate ./meter/internal/figures", name)
	}
}
