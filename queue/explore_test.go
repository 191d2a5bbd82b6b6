package queue_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

var (
	exploreSeed  = flag.Int64("explore.seed", -1, "explore this seed only, and print its steps")
	exploreSeeds = flag.Int64("explore.seeds", 0, "how many seeds to explore; 0 is the ordinary number")
)

const exploreSteps = 50

// TestExplore lets producers, workers and an operator do random things to a few buckets while replies get lost, calls
// arrive twice or late, and the clock steps; after every call it compares the whole state with the laws.
func TestExplore(t *testing.T) {
	t.Parallel()
	if *exploreSeed >= 0 {
		x := newExplorer(t)
		if err := x.run(*exploreSeed); err != nil {
			t.Fatalf("%s\nseed %d: %v", strings.Join(x.steps, "\n"), *exploreSeed, err)
		}
		t.Logf("%s", strings.Join(x.steps, "\n"))
		return
	}
	total := *exploreSeeds
	if total == 0 {
		if total = 1500; raceEnabled {
			total = 400
		}
	}
	var next atomic.Int64
	for lane := range runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprint("lane ", lane), func(t *testing.T) {
			t.Parallel()
			x := newExplorer(t)
			for seed := next.Add(1); seed <= total && !t.Failed(); seed = next.Add(1) {
				if err := x.run(seed); err != nil {
					t.Errorf("seed %d, step %d: %v\nsee its steps: go test ./queue -run Explore -explore.seed=%d",
						seed, len(x.steps), err, seed)
				}
			}
		})
	}
}

// explorer is one world: a Redis with one shard, some producers and workers that share an unreliable line to it, and an
// operator whose line is good.
type explorer struct {
	ctx              context.Context
	m                *miniredis.Miniredis
	line             *unreliable
	rdb              *redis.Client // with the unreliable line
	client, operator *queue.Client
	random           *rand.Rand

	clock   int64   // the server's
	latest  int64   // the highest it has been
	back    float64 // how far it has stepped back in all
	real    float64 // the time that never does: clock + back
	workers []*exploreWorker
	gone    []*exploreWorker // have left, or tried to; what they still have out returns when they try again
	ids     []queue.Job
	held    []act // what the calls on the way may do once they arrive

	ledger
	before, now *seen
	paces       map[string]*pace
	moved       map[string]int // how often a worker's beat has moved

	crashy, rolls bool      // this seed's workers die often; its data rolls back
	copy          *rollback // what comes back
	unnoticed     bool      // data was lost, and no script knows it
	doubted       bool      // data was lost
	doubt         float64   // when that was noticed, in real time
	since         int64     // and by the server's clock, the latest of these

	steps  []string
	broken error
}

type exploreWorker struct {
	name   string
	outlet *queue.Outlet
	known  []queue.Verdict // departures it has heard of, settled or not
	anew   int             // so many of them were before it was taken for dead
	told   map[string]bool // stamps of those that it was told are cancelled
	heard  int64           // the last call whose reply it has
	sight  sight           // what others saw of its beat
}

// sight is a beat that was seen, and how often it had moved by then.
type sight struct {
	beat  string
	moves int
}

func newExplorer(t *testing.T) *explorer {
	t.Helper()
	x := &explorer{ctx: t.Context(), m: miniredis.RunT(t), line: &unreliable{}}
	good := redis.NewClient(&redis.Options{Addr: x.m.Addr()})
	x.rdb = redis.NewClient(&redis.Options{Addr: x.m.Addr(), MaxRetries: -1})
	x.rdb.AddHook(x.line)
	t.Cleanup(func() { _ = errors.Join(good.Close(), x.rdb.Close()) })
	x.client, x.operator = x.open(t, x.rdb), x.open(t, good)
	return x
}

func (x *explorer) open(t *testing.T, rdb *redis.Client) *queue.Client {
	t.Helper()
	c, err := queue.OpenWithClock(x.ctx, rdb, queue.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run explores one seed.
func (x *explorer) run(seed int64) error {
	x.reset(seed)
	for len(x.steps) < exploreSteps && x.broken == nil {
		x.step()
	}
	if x.broken == nil {
		x.finish()
	}
	return x.broken
}

func (x *explorer) reset(seed int64) {
	x.m.FlushAll()
	x.random = rand.New(rand.NewPCG(uint64(seed), 0))
	*x.line = unreliable{}
	x.clock, x.latest, x.back, x.steps, x.broken, x.held, x.ids = 0, 0, 0, nil, nil, nil, nil
	x.ledger, x.paces, x.moved = newLedger(), map[string]*pace{}, map[string]int{}
	x.copy, x.unnoticed, x.doubted, x.doubt, x.since = nil, false, false, 0, 0
	x.crashy, x.rolls = seed%4 == 1, seed%5 == 2
	x.advance(1_000_000_000_000 + x.random.Int64N(1000))
	x.now = look(x.m)
	for _, name := range []string{"one", "two"} {
		x.put(x.randomClass(name))
	}
	x.workers, x.gone = nil, nil
	for range 2 + x.random.IntN(2) {
		x.hire(x.client)
	}
	x.now = look(x.m)
}

// hire starts a worker under a name of its own.
func (x *explorer) hire(c *queue.Client) *exploreWorker {
	name := fmt.Sprint("w", len(x.workers)+len(x.gone))
	w := &exploreWorker{name: name, outlet: c.Outlet(name, 0), told: map[string]bool{}}
	x.workers = append(x.workers, w)
	return w
}

// advance moves the server's clock, also back.
func (x *explorer) advance(us int64) {
	x.clock += us
	if us < 0 {
		x.back -= float64(us)
	}
	x.latest = max(x.latest, x.clock)
	x.real = float64(x.clock) + x.back
	_ = x.m.Set(exploreTag+"clock", strconv.FormatInt(x.clock, 10))
}

// put stores a class. Slots of buckets that were gone by then are nobody's business any more.
func (x *explorer) put(c queue.Class) {
	for bucket := range x.paces {
		if b := x.now.buckets[bucket]; strings.HasPrefix(bucket, c.Name+"/") && (b == nil || !b.hasSlot) {
			delete(x.paces, bucket)
		}
	}
	_, err := x.operator.Classes().Put(x.ctx, c)
	x.must(err == nil, "put %s: %v", c.Name, err)
	x.classes[c.Name] = c
}

// do makes one call and judges what it did.
func (x *explorer) do(a act, call func(a *act)) {
	before := x.now
	call(&a)
	if x.line.next != noFault { // nothing was sent
		x.line.next = noFault
	}
	for len(x.held) < len(x.line.held) {
		x.held = append(x.held, a)
	}
	x.now = look(x.m)
	x.judge(before, a)
}

func (x *explorer) note(format string, args ...any) {
	x.steps = append(x.steps, fmt.Sprintf("%3d %d ", len(x.steps), x.clock)+fmt.Sprintf(format, args...))
}

// fate picks what happens to the next call.
func (x *explorer) fate() fault {
	if x.random.IntN(5) > 0 {
		return noFault
	}
	x.line.next = []fault{replyLost, replyLost, requestLost, sentTwice, delayed}[x.random.IntN(5)]
	return x.line.next
}
