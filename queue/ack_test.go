package queue_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// tap is a go-redis hook that writes down the names of all commands, and may answer some itself.
type tap struct {
	mu     sync.Mutex
	names  []string
	trips  int
	answer func(cmd redis.Cmder, next func() error) error
}

func (h *tap) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *tap) note(cmds ...redis.Cmder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trips++
	for _, cmd := range cmds {
		h.names = append(h.names, cmd.Name())
	}
}

func (h *tap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.note(cmds...)
		return next(ctx, cmds)
	}
}

func (h *tap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.note(cmd)
		if h.answer != nil {
			return h.answer(cmd, func() error { return next(ctx, cmd) })
		}
		return next(ctx, cmd)
	}
}

// taken tells which commands there were since it was last asked, and in how many round trips.
func (h *tap) taken() ([]string, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	names, trips := h.names, h.trips
	h.names, h.trips = nil, 0
	return names, trips
}

// saw compares the commands since it was last asked, but those by which a connection is made and INFO, which time decides.
func (h *tap) saw(t *testing.T, what string, want ...string) {
	t.Helper()
	names, _ := h.taken()
	names = slices.DeleteFunc(names, func(name string) bool { return name == "hello" || name == "client" || name == "info" })
	if !slices.Equal(names, want) {
		t.Errorf("%s: commands %v, want %v", what, names, want)
	}
}

func tapped(rdb *redis.Client) *tap {
	h := &tap{}
	rdb.AddHook(h)
	return h
}

func with(job queue.Job, ack queue.Ack) queue.Job {
	job.Ack = ack
	return job
}

func TestParseAck(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"memory", "fsynced", "replicated(1)", "replicated(16)"} {
		if a, err := queue.ParseAck(s); err != nil || string(a) != s {
			t.Errorf("%s: %q, %v", s, a, err)
		}
	}
	for _, s := range []string{"", "disk", "replicated", "replicated(0)", "replicated(17)", "replicated(01)", "replicated(1", "replicated(1))", "Fsynced"} {
		if a, err := queue.ParseAck(s); !errors.Is(err, queue.ErrInvalid) {
			t.Errorf("%q: %q, %v; want it invalid", s, a, err)
		}
	}
	c := openAt(t, redistest.MiniClient(t), 1)
	put(t, c, "c", 10, "1/1s")
	if _, err := c.Submit(t.Context(), with(newJob("c", "k", "1"), "disk")); !errors.Is(err, queue.ErrInvalid) {
		t.Errorf("submit with ack disk: %v, want it invalid", err)
	}
}

// TestAckFsynced: a server that syncs before it replies needs no more than that.
func TestAckFsynced(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	rdb := server.Client(t)
	c, ctx := open(t, rdb, 1), t.Context()
	put(t, c, "c", 100, "1/1s")
	put(t, c, "plain", 100, "1/1s")
	r, err := c.Submit(ctx, with(newJob("c", "k", "1"), queue.AckFsynced))
	if err != nil || r.Ack != queue.AckFsynced || r.Status != queue.Admitted {
		t.Fatalf("%+v, %v; want it admitted and fsynced", r, err)
	}
	h := tapped(rdb)
	again, err := c.Submit(ctx, with(newJob("c", "k", "1"), queue.AckFsynced))
	if err != nil || again.Ack != queue.AckFsynced || again.Status != queue.Duplicate {
		t.Errorf("again: %+v, %v; want a duplicate, fsynced", again, err)
	}
	h.saw(t, "again", "evalsha")
	jobs := append(newJobs("plain", "k", 2), with(newJob("plain", "k", "x"), queue.AckFsynced), with(newJob("plain", "k", "y"), queue.AckMemory))
	for i, r := range c.SubmitMany(ctx, jobs) {
		want := queue.AckMemory
		if i == 2 {
			want = queue.AckFsynced
		}
		if r.Err != nil || r.Receipt.Ack != want {
			t.Errorf("job %d: %+v, %v; want ack %s", i, r.Receipt, r.Err, want)
		}
	}
	server.Restart()
	_ = rdb.Ping(ctx).Err() // over a new connection
	if j, err := c.Job(ctx, r.Ref); err != nil || j.State != queue.Line {
		t.Errorf("after kill -9: %+v, %v", j, err)
	}
}

// TestAckFsyncedIsRefused: who cannot vouch for a disk admits nothing, and says what is needed.
func TestAckFsyncedIsRefused(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c, ctx := openAt(t, rdb, 1), t.Context()
		put(t, c, "c", 100, "1/1s")
		put(t, c, "asks", 100, "1/1s", func(c *queue.Class) { c.Ack = queue.AckFsynced })
		_, single := c.Submit(ctx, with(newJob("c", "k", "1"), queue.AckFsynced))
		_, asked := c.Submit(ctx, newJob("asks", "k", "1"))
		many := c.SubmitMany(ctx, newJobs("asks", "k", 3))
		for what, err := range map[string]error{"submit": single, "by the class": asked, "many": many[2].Err} {
			if queue.ReasonOf(err) != queue.ReasonUnavailable || !errors.Is(err, queue.ErrUnfit) ||
				!strings.Contains(err.Error(), "appendonly yes") || !strings.Contains(err.Error(), "7.2 or appendfsync always") {
				t.Errorf("%s: %v; want it unfit, and what is needed", what, err)
			}
		}
		for _, class := range []string{"c", "asks"} {
			if books, err := c.Books(ctx, class); err != nil || books.Admitted != 0 {
				t.Errorf("books of %s: %+v, %v; want nothing admitted", class, books, err)
			}
		}
		if r, err := c.Submit(ctx, with(newJob("c", "k", "1"), queue.AckMemory)); err != nil || r.Ack != queue.AckMemory {
			t.Errorf("ack memory: %+v, %v", r, err)
		}
		if r, err := c.Submit(ctx, with(newJob("asks", "k", "1"), queue.AckMemory)); err != nil || r.Ack != queue.AckMemory {
			t.Errorf("ack memory in a class that asks for more: %+v, %v", r, err)
		}
	}
	redistest.Each(t, check)
	t.Run("everysec", func(t *testing.T) { check(t, redistest.Start(t, "--appendonly", "yes").Client(t)) })
}

var redisVersion = regexp.MustCompile(`redis_version:[0-9.]+`)

// waitAOF has a server of 7.0 pass for one of 7.4, whose disk has what it is told.
func waitAOF(h *tap, synced int64) {
	h.answer = func(cmd redis.Cmder, next func() error) error {
		if c, ok := cmd.(*redis.IntSliceCmd); ok && cmd.Name() == "waitaof" {
			c.SetVal([]int64{synced, 0})
			return nil
		}
		err := next()
		if c, ok := cmd.(*redis.StringCmd); ok && cmd.Name() == "info" {
			c.SetVal(redisVersion.ReplaceAllString(c.Val(), "redis_version:7.4.0"))
		}
		return err
	}
}

// TestAckWaitAOF: from 7.2 on it is WAITAOF that tells.
func TestAckWaitAOF(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, "--appendonly", "yes").Client(t)
	c, ctx := open(t, rdb, 1), t.Context()
	put(t, c, "c", 1000, "1/1s", func(c *queue.Class) { c.Ack = queue.AckFsynced })
	h := tapped(rdb)
	waitAOF(h, 1)
	r, err := c.Submit(ctx, newJob("c", "k", "1"))
	if err != nil || r.Ack != queue.AckFsynced {
		t.Fatalf("%+v, %v; want it fsynced", r, err)
	}
	h.taken()
	for i, r := range c.SubmitMany(ctx, newJobs("c", "many", 150)) {
		if r.Err != nil || r.Receipt.Ack != queue.AckFsynced {
			t.Fatalf("job %d: %+v, %v; want it fsynced", i, r.Receipt, r.Err)
		}
	}
	h.saw(t, "many", "evalsha", "evalsha", "waitaof")
	waitAOF(h, 0)
	r, err = c.Submit(ctx, newJob("c", "k", "2"))
	if !errors.Is(err, queue.ErrUnknown) || !strings.Contains(err.Error(), `"2"`) || r.ID != "2" || r.Status != "" {
		t.Errorf("not synced: %+v, %v; want unknown, and the id", r, err)
	}
	waitAOF(h, 1)
	if r, err := c.Submit(ctx, newJob("c", "k", "2")); err != nil || r.Status != queue.Duplicate || r.Ack != queue.AckFsynced {
		t.Errorf("again: %+v, %v; want a duplicate", r, err)
	}
}

// replicate starts a replica and returns when it follows.
func replicate(t *testing.T, master *redistest.Server) *redis.Client {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr)
	must(t, err)
	replica := redistest.Start(t, "--replicaof", host+" "+port).Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	rdb := master.Client(t)
	for rdb.Wait(ctx, 1, time.Second).Val() < 1 {
		must(t, ctx.Err())
	}
	return replica
}

// TestAckReplicated: what is confirmed is on the replica, and a class that asks for it is asked but once.
func TestAckReplicated(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	replica := replicate(t, master)
	setup, ctx := open(t, master.Client(t), 1), t.Context()
	put(t, setup, "c", 1000, "1/1s", func(c *queue.Class) { c.Ack = queue.AckReplicated(1) })
	put(t, setup, "plain", 1000, "1/1s")
	one := func(t *testing.T, c *queue.Client, id string) []queue.Result {
		t.Helper()
		r, err := c.Submit(ctx, newJob("c", "k", id))
		return []queue.Result{{Receipt: r, Err: err}}
	}
	many := func(t *testing.T, c *queue.Client, id string) []queue.Result {
		t.Helper()
		return c.SubmitMany(ctx, []queue.Job{newJob("c", "k", id+"1"), newJob("c", "k", id+"2")})
	}
	for way, submit := range map[string]func(*testing.T, *queue.Client, string) []queue.Result{"submit": one, "submit many": many} {
		rdb := master.Client(t)
		c, h := open(t, rdb, 1), tapped(rdb)
		for i, commands := range [][]string{{"evalsha", "evalsha", "wait"}, {"evalsha", "wait"}} {
			for _, r := range submit(t, c, fmt.Sprint(way, i)) {
				if r.Err != nil || r.Receipt.Ack != queue.AckReplicated(1) || r.Receipt.Status != queue.Admitted {
					t.Fatalf("%s: %+v, %v; want it replicated", way, r.Receipt, r.Err)
				}
				if replica.Exists(ctx, "{spout:0}:job:"+r.Receipt.Ref).Val() != 1 {
					t.Errorf("%s: the replica does not have job %s", way, r.Receipt.ID)
				}
			}
			h.saw(t, fmt.Sprint(way, " ", i), commands...)
		}
	}
	if r, err := setup.Submit(ctx, with(newJob("plain", "k", "1"), queue.AckReplicated(1))); err != nil || r.Ack != queue.AckReplicated(1) {
		t.Errorf("asked for by the job: %+v, %v", r, err)
	}
	if r, err := setup.Submit(ctx, newJob("plain", "k", "2")); err != nil || r.Ack != queue.AckMemory {
		t.Errorf("asked for by nobody: %+v, %v", r, err)
	}
}

// TestAckIsNotConfirmed: the job may be lost with the server, so its outcome is unknown until a replica has it.
func TestAckIsNotConfirmed(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	c := open(t, master.Client(t), 1)
	put(t, c, "c", 1000, "1/1s", func(c *queue.Class) { c.Ack = queue.AckReplicated(1) })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	single, err := c.Submit(ctx, newJob("c", "k", "single"))
	unconfirmed(t, single, err)
	if waited := time.Since(began); waited > 3*time.Second {
		t.Errorf("it was told after %v, past the deadline", waited)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	many := c.SubmitMany(ctx, []queue.Job{newJob("c", "k", "many"), newJob("c", "other", "many")})
	for _, r := range many {
		unconfirmed(t, r.Receipt, r.Err)
	}
	if books, err := c.Books(t.Context(), "c"); err != nil || books.Admitted != 3 {
		t.Errorf("books: %+v, %v; want three in memory", books, err)
	}
	replicate(t, master)
	for _, job := range []queue.Job{newJob("c", "k", "single"), newJob("c", "k", "many"), newJob("c", "other", "many")} {
		if r, err := c.Submit(t.Context(), job); err != nil || r.Status != queue.Duplicate || r.Ack != queue.AckReplicated(1) {
			t.Errorf("again: %+v, %v; want a duplicate, replicated", r, err)
		}
	}
}

// TestAckOverABrokenConnection: another connection, which wrote nothing, is not asked whether all is where it should be.
func TestAckOverABrokenConnection(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	replicate(t, master)
	rdb, other := master.Client(t), master.Client(t)
	c, ctx := open(t, rdb, 1), t.Context()
	put(t, c, "c", 1000, "1/1s", func(c *queue.Class) { c.Ack = queue.AckReplicated(1) })
	h := tapped(rdb)
	h.answer = func(cmd redis.Cmder, next func() error) error {
		if cmd.Name() == "wait" {
			must(t, other.Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
		}
		return next()
	}
	r, err := c.Submit(ctx, newJob("c", "k", "1"))
	unconfirmed(t, r, err)
	for _, r := range c.SubmitMany(ctx, newJobs("c", "k", 3)) {
		unconfirmed(t, r.Receipt, r.Err)
	}
	h.answer = nil
	if r, err := c.Submit(ctx, newJob("c", "k", "1")); err != nil || r.Status != queue.Duplicate || r.Ack != queue.AckReplicated(1) {
		t.Errorf("again: %+v, %v; want a duplicate, replicated", r, err)
	}
}

func unconfirmed(t *testing.T, r queue.Receipt, err error) {
	t.Helper()
	if !errors.Is(err, queue.ErrUnknown) || queue.ReasonOf(err) != queue.ReasonUnknown || r.ID == "" ||
		!strings.Contains(err.Error(), fmt.Sprintf("%q", r.ID)) || r.Status != "" {
		t.Errorf("%+v, %v; want unknown, and the id", r, err)
	}
}
