package meter_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/meter"
)

// gated is a hook that counts scripts, and holds them back while its gate is locked.
type gated struct {
	gate    sync.RWMutex
	mu      sync.Mutex
	scripts int
	arrived chan struct{}
}

func (g *gated) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (g *gated) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (g *gated) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			g.mu.Lock()
			g.scripts++
			g.mu.Unlock()
			g.arrived <- struct{}{}
			g.gate.RLock()
			defer g.gate.RUnlock()
		}
		return next(ctx, cmd)
	}
}

// waitFor is how many callers wait at the door.
func waitFor(t *testing.T, s meter.Store, n int) {
	t.Helper()
	for meter.Waiting(s) != n {
		if t.Context().Err() != nil {
			t.Fatal("nobody came")
		}
		<-time.After(time.Millisecond)
	}
}

// While one call is under way the others wait, and go together.
func TestChecksShareRoundTrips(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		g := &gated{arrived: make(chan struct{}, 1000)}
		store := meter.Redis(rdb)
		limits := []meter.Limit{perSecond(50, 1), {Capacity: 50, Count: 1, Period: time.Hour}}
		var meters []*meter.Meter
		for _, l := range limits {
			meters = append(meters, newMeter(t, store, l, meter.Options{}))
			check(t, meters[len(meters)-1], "warm", 1)
		}
		must(t, meter.LoadScripts(t.Context(), store))
		rdb.AddHook(g)
		g.gate.Lock()
		var group sync.WaitGroup
		ask := func(i int) {
			group.Go(func() {
				if d, err := meters[i%2].Check(t.Context(), "k", 1); err != nil || !d.Conform {
					t.Errorf("call %d: %+v, %v", i, d, err)
				}
			})
		}
		ask(0)
		<-g.arrived
		for i := range 63 {
			ask(i)
		}
		waitFor(t, store, 63)
		g.gate.Unlock()
		group.Wait()
		if g.scripts != 2 {
			t.Errorf("%d round trips for one call and 63 that came meanwhile, want 2", g.scripts)
		}
		for i, want := range []int64{17, 19} { // 33 and 31 were taken
			if d := check(t, meters[i], "k", 0); d.Remaining < want || d.Remaining > want+1 {
				t.Errorf("%v: %+v, want %d remaining", limits[i], d, want)
			}
		}
	})
}

// Who gives up while waiting at the door takes nothing.
func TestGivingUpAtTheDoor(t *testing.T) {
	t.Parallel()
	rdb := redistest.MiniClient(t)
	g := &gated{arrived: make(chan struct{}, 1000)}
	store := meter.Redis(rdb)
	m := newMeter(t, store, meter.Limit{Capacity: 10, Count: 1, Period: time.Hour}, meter.Options{})
	rdb.AddHook(g)
	g.gate.Lock()
	var group sync.WaitGroup
	group.Go(func() { check(t, m, "k", 1) })
	<-g.arrived
	ctx, cancel := context.WithCancel(t.Context())
	group.Go(func() {
		if _, err := m.Check(ctx, "k", 1); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
	waitFor(t, store, 1)
	cancel()
	waitFor(t, store, 0)
	g.gate.Unlock()
	group.Wait()
	if d := check(t, m, "k", 0); d.Remaining != 9 {
		t.Errorf("%+v, want 9 remaining", d)
	}
}

// A key that somebody else has written to is an error of its own callers only.
func TestForeignKeyAmongOthers(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		m := newMeter(t, meter.Redis(rdb), perSecond(5, 1), meter.Options{})
		must(t, rdb.LPush(t.Context(), m.RedisKey("list"), "x").Err())
		must(t, rdb.Set(t.Context(), m.RedisKey("text"), "x", 0).Err())
		d, errs := meter.Together(t.Context(), m, []string{"a", "list", "b", "text", "a"}, []int64{1, 1, 2, 1, 1})
		for i, want := range []int64{4, 0, 3, 0, 3} {
			if bad := i%2 == 1; bad != (errs[i] != nil) || d[i].Remaining != want {
				t.Errorf("call %d: %+v, %v; want %d remaining", i, d[i], errs[i], want)
			}
		}
	})
}

// A plain client of a cluster's only node: keys of several slots cannot go together, and do not.
func TestDoorOfOneNode(t *testing.T) {
	t.Parallel()
	rdb := redistest.Cluster(t, 1).Nodes[0].Client(t)
	m := newMeter(t, meter.Redis(rdb), perSecond(5, 1), meter.Options{})
	for range 2 {
		d, errs := meter.Together(t.Context(), m, []string{"a", "b", "c"}, []int64{1, 1, 1})
		if err := errors.Join(errs...); err != nil || !d[2].Conform {
			t.Errorf("%+v, %v", d, err)
		}
	}
	if d := check(t, m, "a", 1); d.Remaining != 2 {
		t.Errorf("%+v, want 2 remaining", d)
	}
}
