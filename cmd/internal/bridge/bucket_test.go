package bridge

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spout-queue/spout/queue"
)

// However messages are delivered, put off and delivered again, they become final in the order of their sequences, and all of them do.
func TestBucketOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := &bucket{}
		n := uint64(rapid.IntRange(1, 30).Draw(t, "messages"))
		away := map[uint64]bool{} // delivered before, and to be delivered again
		next := uint64(1)         // to be delivered first
		var done []uint64
		for steps := 0; len(done) < int(n) && steps < 10_000; steps++ {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0: // JetStream delivers new ones in order
				if next <= n {
					b.arrive(&message{seq: next})
					next++
				}
			case 1: // and again in any
				for seq := range n {
					if seq++; away[seq] && rapid.Bool().Draw(t, "again") {
						delete(away, seq)
						if _, taken := b.arrive(&message{seq: seq}); !taken {
							t.Fatalf("%d was in the hand", seq)
						}
					}
				}
			case 2: // some are admitted
				for range rapid.IntRange(0, b.take(callJobs, callBytes)).Draw(t, "admitted") {
					done = append(done, b.hand[0].seq)
					b.final(b.hand[0])
				}
			case 3: // the bucket is full
				for _, m := range b.hand {
					away[m.seq] = true
				}
				b.hand = nil
			}
		}
		for i, seq := range done {
			if seq != uint64(i)+1 {
				t.Fatalf("final in this order: %v", done)
			}
		}
	})
}

// Jobs on other terms go into a call of their own.
func TestBucketTake(t *testing.T) {
	t.Parallel()
	b := &bucket{}
	for i, wait := range []time.Duration{0, 0, time.Second, 0} {
		b.arrive(&message{seq: uint64(i), job: queue.Job{MaxWait: wait, Payload: []byte(`"12345678"`)}})
	}
	for _, test := range []struct{ jobs, bytes, want int }{{10, 1000, 2}, {1, 1000, 1}, {10, 15, 1}, {10, 5, 0}} {
		if got := b.take(test.jobs, test.bytes); got != test.want {
			t.Errorf("of %d jobs and %d bytes it takes %d, want %d", test.jobs, test.bytes, got, test.want)
		}
	}
}

// A message is put off until its turn, and a minute at most; a bucket that is refused again and again is asked ever more seldom.
func TestBucketDelay(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := &bucket{}
	b.refuse(now, time.Second)
	for _, test := range []struct {
		index    int
		interval time.Duration
		want     time.Duration
	}{
		{0, time.Second, time.Second + lateness},
		{3, time.Second, 4*time.Second + lateness},
		{100, time.Second, delayMost},
		{1, 24 * time.Hour, delayMost},
		{100_001, time.Nanosecond, delayMost},
	} {
		if got := b.delay(now, test.index, test.interval); got != test.want {
			t.Errorf("index %d: %v, want %v", test.index, got, test.want)
		}
	}
	b.refuse(now, 24*time.Hour)
	if got := b.delay(now, 0, 0); got != delayMost {
		t.Errorf("told a day: %v", got)
	}
	for range 20 {
		b.refuse(now, 0)
	}
	if got := b.delay(now, 0, 0); got != mostBackoff {
		t.Errorf("nobody drains: %v", got)
	}
}

// Who comes just before a bucket opens waits for it, rather than for a minute.
func TestBucketGoesBack(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, test := range []struct {
		name            string
		opens, interval time.Duration
		index           int
		want            time.Duration // 0: it stays
	}{
		{"the first", lateness, time.Hour, 0, lateness},
		{"one behind it that would be away for long", lateness, time.Hour, 1, 0},
		{"one behind it whose turn is soon", lateness, 10 * time.Millisecond, 3, lateness + 30*time.Millisecond},
		{"long before it opens", 30 * time.Second, time.Hour, 1, delayMost},
	} {
		b := &bucket{opens: now.Add(test.opens)}
		delay, ok := b.goesBack(now, test.index, test.interval)
		if !ok {
			delay = 0
		}
		if delay != test.want {
			t.Errorf("%s goes back for %v, want %v", test.name, delay, test.want)
		}
	}
}

// A message that comes while others of its key are in a call does not take the place of one of them.
func TestBoardKeepsItsMessages(t *testing.T) {
	t.Parallel()
	b := &bucket{key: "k"}
	l := &line{buckets: map[string]*bucket{"k": b}}
	for _, seq := range []uint64{7, 8} {
		b.arrive(&message{seq: seq})
		l.hand++
	}
	l.enqueue(b)
	_, passengers := l.board()
	b.arrive(&message{seq: 5}) // delivered late
	for i, m := range passengers[0].messages {
		if want := uint64(7 + i); m.seq != want {
			t.Errorf("message %d of the call is %d, not %d", i, m.seq, want)
		}
		b.final(m)
	}
	if len(b.hand) != 1 || !b.leads() || b.hand[0].seq != 5 || len(b.waiting) != 1 {
		t.Errorf("left are %v of %v", b.hand, b.waiting)
	}
}

// Messages that are no longer in the stream are forgotten wherever they are, so that those behind them have their turn.
func TestBucketForget(t *testing.T) {
	t.Parallel()
	b := &bucket{}
	for _, seq := range []uint64{1, 2, 10} {
		b.arrive(&message{seq: seq})
	}
	b.hand = b.hand[1:] // the first was put off
	dropped := b.forget(10)
	if len(dropped) != 1 || dropped[0].seq != 2 || len(b.waiting) != 1 || !b.leads() || b.hand[0].seq != 10 {
		t.Errorf("dropped %v; left are %v of %v", dropped, b.hand, b.waiting)
	}
	if dropped = b.forget(math.MaxUint64); len(dropped) != 1 || len(b.waiting)+len(b.hand) != 0 {
		t.Errorf("dropped %v; left are %v of %v", dropped, b.hand, b.waiting)
	}
}
