package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spout-queue/spout/queue"
)

const testFreshness = 25 * time.Millisecond

func newTestStage() *stage {
	s := &Scheduler{o: Options{Freshness: testFreshness}.withDefaults(), slots: newSlots(0)}
	return newStage(s, nil)
}

// left makes an attempt of a job that was asked for now.
func (st *stage) left(key string, number int64) *attempt {
	a := &attempt{
		Departure:  queue.Departure{Class: "a", Key: key, Ref: fmt.Sprint(key, number), Stamp: time.Now().String(), Number: number},
		freshUntil: time.Now().Add(testFreshness),
	}
	st.admit(a)
	return a
}

// turnOf tells later whether an attempt may start.
func (st *stage) turnOf(a *attempt) <-chan bool {
	may := make(chan bool, 1)
	go func() { may <- st.awaitTurn(a) }()
	synctest.Wait()
	return may
}

func TestTurnAwaitsTheOneBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := newTestStage()
		first, second, other := st.left("k", 1), st.left("k", 2), st.left("other", 3)
		secondMay := st.turnOf(second)
		if len(secondMay) != 0 {
			t.Error("the second did not wait for the first")
		}
		if !<-st.turnOf(other) {
			t.Error("another bucket's job had to go back")
		}
		if !<-st.turnOf(first) {
			t.Error("the first had to go back")
		}
		first.decide()
		if !<-secondMay {
			t.Error("the second had to go back")
		}
		second.decide()
		for _, a := range []*attempt{first, second, other} {
			st.end(a)
		}
		checkForgotten(t, st)
	})
}

func TestTurnBehindOneThatGoesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := newTestStage()
		first := st.left("k", 1)
		together := st.left("k", 2)
		togetherMay := st.turnOf(together)
		there := st.goBack(first)
		st.end(first)
		if <-togetherMay {
			t.Error("one that left behind it may start")
		}
		thereToo := st.goBack(together)
		st.end(together)

		<-time.After(time.Millisecond)
		meanwhile := st.left("k", 3)
		if <-st.turnOf(meanwhile) {
			t.Error("one that left while it was on its way may start")
		}
		thereThree := st.goBack(meanwhile)
		st.end(meanwhile)
		again := st.left("k", 1)
		if !<-st.turnOf(again) {
			t.Error("itself may not start")
		}
		again.decide()
		st.end(again)

		before := st.left("k", 4)
		<-time.After(time.Millisecond)
		there()
		thereToo()
		thereThree()
		if <-st.turnOf(before) {
			t.Error("one that left before it was back may start")
		}
		st.goBack(before)()
		st.end(before)
		<-time.After(time.Millisecond)
		after := st.left("k", 5)
		if !<-st.turnOf(after) {
			t.Error("one that left after it was back may not start")
		}
		st.end(after)
		<-time.After(2 * testFreshness)
		checkForgotten(t, st)
	})
}

func checkForgotten(t *testing.T, st *stage) {
	t.Helper()
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.attempts)+len(st.last)+len(st.returning) > 0 {
		t.Errorf("remembered: %v, %v, %v", st.attempts, st.last, st.returning)
	}
	select {
	case <-st.empty:
	default:
		t.Error("the stage is not empty")
	}
	if st.slots.take(1) == 0 {
		t.Error("no slot came back")
	}
}
