package bridge

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What is away is told of when it goes, seldom while it lasts, and when it is back.
func TestOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var o outage
		for i, step := range []struct {
			after time.Duration
			away  bool
			told  bool
		}{
			{0, false, false},
			{time.Second, true, true},
			{time.Second, true, false},
			{tellEvery, true, true},
			{time.Second, true, false},
			{time.Second, false, true},
			{time.Hour, false, false},
			{time.Second, true, true},
		} {
			<-time.After(step.after)
			if told := o.tell(step.away); told != step.told {
				t.Errorf("step %d: %v", i, told)
			}
		}
	})
}

// A bridge that does not see its stream is not ready after a while, with the reason.
func TestUnseen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b Bridge
		down := errors.New("no quorum")
		for i, step := range []struct {
			after time.Duration
			err   error
			ready bool
		}{
			{0, nil, true},
			{time.Second, down, true},
			{unseenMost, down, false},
			{time.Second, nil, true},
			{time.Hour, nil, true},
			{unseenMost, down, true},
			{unseenMost + time.Second, down, false},
		} {
			<-time.After(step.after)
			b.looked(step.err)
			if err := b.unseen(); (err == nil) != step.ready || err != nil && !errors.Is(err, down) {
				t.Errorf("step %d: %v", i, err)
			}
		}
	})
}

// A class that is made while its messages are carried as those of a stray has its interval known to who carries them.
func TestIntervalOfStray(t *testing.T) {
	t.Parallel()
	carried := &interval{class: "late"}
	c := &claims{mine: map[string]*claim{"late": {interval: carried}}}
	if c.intervalOf("late", "late") != carried || c.intervalOf("other", "other") == carried {
		t.Error("not that of the claim")
	}
}
