package playground_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/playground"
	"github.com/spout-queue/spout/meter"
)

func look(t *testing.T, table *playground.Table) playground.Look {
	t.Helper()
	l, err := table.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Ten at once under 5 per 2 s: five conform in each of the six, and the refused are told when they would.
func TestClick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := playground.New().Table("a")
		if err := table.Click(t.Context(), 1, 10); err != nil {
			t.Fatal(err)
		}
		seen := look(t, table)
		if len(seen.Lanes) != len(playground.Algorithms()) {
			t.Fatalf("%d lanes", len(seen.Lanes))
		}
		for _, l := range seen.Lanes {
			if l.Conformed != 5 || l.Refused != 5 || len(l.Marks) != 10 || l.Remaining != 0 || l.Last.Conform || l.RetryAt <= 0 {
				t.Errorf("%s: %d conformed, %d refused, %d marks, %d remain, retry at %v", l.Algorithm, l.Conformed, l.Refused, len(l.Marks), l.Remaining, l.RetryAt)
			}
			if l.Algorithm == meter.GCRA && l.RetryAt != 400*time.Millisecond {
				t.Errorf("gcra: retry at %v, want one interval", l.RetryAt)
			}
		}
		<-time.After(time.Minute) // in a bubble
		for _, l := range look(t, table).Lanes {
			if len(l.Marks) != 0 || l.Remaining != l.Limit || l.Conformed != 5 {
				t.Errorf("%s a minute later: %d marks, %d of %d remain", l.Algorithm, len(l.Marks), l.Remaining, l.Limit)
			}
		}
	})
}

// Around the edge of a window the algorithms differ: that is what the playground is for.
func TestDiffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := playground.New().Table("a")
		<-time.After(1900 * time.Millisecond) // in a bubble, which begins with a full minute
		for range 2 {
			if err := table.Click(t.Context(), 1, 5); err != nil {
				t.Fatal(err)
			}
			<-time.After(200 * time.Millisecond) // in a bubble
		}
		for _, l := range look(t, table).Lanes {
			want := map[meter.Algorithm]int{meter.FixedWindow: 10}[l.Algorithm]
			if want == 0 {
				want = 5
			}
			if l.Conformed != want {
				t.Errorf("%s: %d conformed, want %d", l.Algorithm, l.Conformed, want)
			}
		}
	})
}

func TestPlay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := playground.New().Table("a")
		done := make(chan error)
		go func() { done <- table.Play(t.Context(), 1, 30, 100*time.Millisecond) }()
		synctest.Wait()
		if err := table.Play(t.Context(), 1, 1, time.Millisecond); !errors.Is(err, playground.ErrRunning) {
			t.Errorf("a second rhythm: %v", err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		for _, l := range look(t, table).Lanes {
			if l.Conformed+l.Refused != 30 {
				t.Errorf("%s: %d clicks", l.Algorithm, l.Conformed+l.Refused)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := table.Play(ctx, 1, 30, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("nobody listens any more: %v", err)
		}
		if err := table.Play(t.Context(), 1, 1, time.Millisecond); err != nil {
			t.Errorf("after one that was broken off: %v", err)
		}
	})
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	table := playground.New().Table("a")
	for _, err := range []error{
		table.Click(t.Context(), 0, 1), table.Click(t.Context(), 51, 1), table.Click(t.Context(), 1, 0), table.Click(t.Context(), 1, 51),
		table.Set(playground.Settings{Count: 0, Capacity: 1, Period: time.Second}),
		table.Set(playground.Settings{Count: 1, Capacity: 51, Period: time.Second}),
		table.Set(playground.Settings{Count: 1, Capacity: 1, Period: time.Millisecond}),
	} {
		if !errors.Is(err, playground.ErrInvalid) {
			t.Errorf("%v", err)
		}
	}
	if l := look(t, table).Lanes[0]; l.Clicked {
		t.Errorf("something was counted: %+v", l)
	}
}

// What is kept is bounded: visitors by number and time, clicks by number.
func TestBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := playground.New()
		first := p.Table("first")
		for i := range playground.Most - 1 {
			p.Table(fmt.Sprint(i))
		}
		if p.Table("first") != first {
			t.Error("the first visitor was forgotten too early")
		}
		p.Table("one more")
		p.Table("0") // the one that came longest ago was forgotten, and pushes out the next one
		if p.Table("first") != first {
			t.Error("who came back was forgotten")
		}
		for range 100 {
			if err := first.Click(t.Context(), 1, 50); err != nil {
				t.Fatal(err)
			}
		}
		for _, l := range look(t, first).Lanes {
			if len(l.Marks) > 500 || len(l.Levels) > 1000 || l.Conformed+l.Refused != 5000 {
				t.Errorf("%s remembers %d clicks and %d levels of %d", l.Algorithm, len(l.Marks), len(l.Levels), l.Conformed+l.Refused)
			}
		}
		<-time.After(playground.Idle) // in a bubble
		if p.Table("first") == first {
			t.Error("who was away for long is still known")
		}
	})
}
