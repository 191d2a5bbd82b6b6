package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// TestSubmitMany: one result each in the order given, jobs of one bucket stay in order, also when Redis has just lost
// the scripts.
func TestSubmitMany(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := openAt(t, rdb, 4)
		put(t, c, "c", 1000, "1000/1s")
		var jobs []queue.Job
		for i := range 1000 {
			jobs = append(jobs, newJob("c", fmt.Sprint("k", i%7), fmt.Sprint(i)))
		}
		jobs[500].Class = "none"
		jobs[501].Key = ""
		must(t, rdb.ScriptFlush(t.Context()).Err())
		for i, r := range c.SubmitMany(t.Context(), jobs) {
			switch {
			case i == 500 && !errors.Is(r.Err, queue.ErrUnknownClass), i == 501 && !errors.Is(r.Err, queue.ErrInvalid):
				t.Errorf("job %d: %+v, %v", i, r.Receipt, r.Err)
			case i == 500 || i == 501:
			case r.Err != nil || r.Receipt.ID != fmt.Sprint(i) || r.Receipt.Status != queue.Admitted:
				t.Fatalf("job %d: %+v, %v", i, r.Receipt, r.Err)
			}
		}
		for k := range 7 {
			states, err := c.Jobs(t.Context(), "c", fmt.Sprint("k", k), false, 1000)
			must(t, err)
			var got, want []string
			for _, s := range states {
				got = append(got, s.ID)
			}
			for i := k; i < 1000; i += 7 {
				if i != 500 && i != 501 {
					want = append(want, fmt.Sprint(i))
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("order of k%d (-want +got):\n%s", k, diff)
			}
		}
		if results := c.SubmitMany(t.Context(), nil); len(results) != 0 {
			t.Errorf("no jobs, %d results", len(results))
		}
	})
}

// slow is a go-redis hook that sends pipelines command by command, and does something after the first script call of each.
type slow struct{ then func() }

func (s *slow) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *slow) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (s *slow) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var first error
		for i := range cmds {
			if err := next(ctx, cmds[i:i+1]); first == nil {
				first = err
			}
			if i == 0 && strings.HasPrefix(cmds[0].Name(), "eval") {
				s.then()
			}
		}
		return first
	}
}

// TestSubmitManyIsInOrderWithoutScripts: a Redis that has lost the scripts, and gets them from somebody else meanwhile, does
// not take the first jobs of a bucket after the later ones.
func TestSubmitManyIsInOrderWithoutScripts(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		other := openAt(t, rdb, 1)
		put(t, other, "c", 1000, "1000/1s")
		hooked := redis.NewClient(rdb.Options())
		t.Cleanup(func() { _ = hooked.Close() })
		c := openAt(t, hooked, 1)
		hooked.AddHook(&slow{then: func() {
			_, err := other.Submit(t.Context(), newJob("c", "another", "x"))
			must(t, err)
		}})
		must(t, rdb.ScriptFlush(t.Context()).Err())
		admit(t, c, newJobs("c", "k", 250)...)
		waiting(t, other, "k", 3, "j0", "j1", "j2")
	})
}

// counter is a go-redis hook that counts script calls and holds them up.
type counter struct {
	calls int
	hold  chan struct{} // nil: passes at once
}

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") && c.hold != nil {
			c.calls++
			<-c.hold
		}
		return next(ctx, cmd)
	}
}

// TestSubmissionsShareCalls: what is submitted while a call is under way travels together in the next one.
func TestSubmissionsShareCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rdb, hook := redistest.MiniDial(t), &counter{}
		rdb.AddHook(hook)
		c := open(t, rdb, 1)
		put(t, c, "c", 100, "10/1s")
		hook.hold = make(chan struct{})
		answers := make(chan error, 64)
		for i := range 64 {
			go func() {
				r, err := c.Submit(t.Context(), newJob("c", fmt.Sprint("k", i%3), fmt.Sprint(i)))
				if err == nil && r.ID != fmt.Sprint(i) {
					err = fmt.Errorf("job %d got the receipt of %s", i, r.ID)
				}
				answers <- err
			}()
			if i == 0 {
				synctest.Wait() // the first one is on its way
			}
		}
		synctest.Wait()
		close(hook.hold)
		for range 64 {
			must(t, <-answers)
		}
		if hook.calls != 2 {
			t.Errorf("64 submissions took %d calls, want 2", hook.calls)
		}
	})
}

// TestSubmitIsGivenUp: whose context ends is told whether the job may have been submitted.
func TestSubmitIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rdb, hook := redistest.MiniDial(t), &counter{}
		rdb.AddHook(hook)
		c := open(t, rdb, 1)
		put(t, c, "c", 100, "10/1s")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		r, err := c.Submit(ended, newJob("c", "k", "ended"))
		if !errors.Is(err, queue.ErrUnavailable) || !errors.Is(err, context.Canceled) || r.ID != "ended" {
			t.Errorf("with an ended context: %+v, %v; want it unavailable and canceled", r, err)
		}
		hook.hold = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		sent, waiting := make(chan error), make(chan error)
		go func() {
			_, err := c.Submit(ctx, newJob("c", "k", "sent"))
			sent <- err
		}()
		synctest.Wait()
		go func() {
			_, err := c.Submit(ctx, newJob("c", "k", "waiting"))
			waiting <- err
		}()
		if err := <-sent; !errors.Is(err, queue.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"sent"`) {
			t.Errorf("given up while under way: %v, want an unknown outcome that names the id", err)
		}
		if err := <-waiting; !errors.Is(err, queue.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("given up before it was sent: %v, want unavailable", err)
		}
		close(hook.hold)
		synctest.Wait()
		states, err := c.Jobs(t.Context(), "c", "k", false, 10)
		must(t, err)
		if len(states) != 1 || states[0].ID != "sent" {
			t.Errorf("in the bucket: %+v, want the one that was sent", states)
		}
	})
}

func TestBadJobs(t *testing.T) {
	t.Parallel()
	c := openAt(t, redistest.MiniClient(t), 2)
	put(t, c, "c", 10, "1/1s", func(c *queue.Class) { c.MaxPayload = 8 })
	bad := func(change func(*queue.Job)) queue.Job {
		job := newJob("c", "k", "id")
		change(&job)
		return job
	}
	for name, test := range map[string]struct {
		job  queue.Job
		want error
	}{
		"no class":          {bad(func(j *queue.Job) { j.Class = "" }), queue.ErrInvalid},
		"odd class":         {bad(func(j *queue.Job) { j.Class = "C" }), queue.ErrInvalid},
		"long class":        {bad(func(j *queue.Job) { j.Class = strings.Repeat("c", 65) }), queue.ErrInvalid},
		"unknown class":     {bad(func(j *queue.Job) { j.Class = "other" }), queue.ErrUnknownClass},
		"no key":            {bad(func(j *queue.Job) { j.Key = "" }), queue.ErrInvalid},
		"long key":          {bad(func(j *queue.Job) { j.Key = strings.Repeat("k", 257) }), queue.ErrInvalid},
		"key not UTF-8":     {bad(func(j *queue.Job) { j.Key = "k\xff" }), queue.ErrInvalid},
		"control in key":    {bad(func(j *queue.Job) { j.Key = "k\n" }), queue.ErrInvalid},
		"NUL in key":        {bad(func(j *queue.Job) { j.Key = "\x00" }), queue.ErrInvalid},
		"long id":           {bad(func(j *queue.Job) { j.ID = strings.Repeat("i", 129) }), queue.ErrInvalid},
		"control in id":     {bad(func(j *queue.Job) { j.ID = "a\x7f" }), queue.ErrInvalid},
		"long type":         {bad(func(j *queue.Job) { j.Type = strings.Repeat("t", 129) }), queue.ErrInvalid},
		"blank type":        {bad(func(j *queue.Job) { j.Type = " " }), queue.ErrInvalid},
		"no payload":        {bad(func(j *queue.Job) { j.Payload = nil }), queue.ErrInvalid},
		"payload not JSON":  {bad(func(j *queue.Job) { j.Payload = []byte("{") }), queue.ErrInvalid},
		"two payloads":      {bad(func(j *queue.Job) { j.Payload = []byte("1 2") }), queue.ErrInvalid},
		"large payload":     {bad(func(j *queue.Job) { j.Payload = []byte(`"1234567"`) }), queue.ErrTooLarge},
		"huge payload":      {bad(func(j *queue.Job) { j.Payload = []byte(strings.Repeat(" ", 1<<20) + "1") }), queue.ErrTooLarge},
		"negative max_wait": {bad(func(j *queue.Job) { j.MaxWait = -1 }), queue.ErrInvalid},
		"odd not_before":    {bad(func(j *queue.Job) { j.NotBefore = time.Unix(1<<40, 0) }), queue.ErrInvalid},
	} {
		r, err := c.Submit(t.Context(), test.job)
		if !errors.Is(err, test.want) || r.Status != "" {
			t.Errorf("%s: %+v, %v; want %v", name, r, err, test.want)
		}
	}
	if books, err := c.Books(t.Context(), "c"); err != nil || books.Admitted != 0 {
		t.Errorf("books: %+v, %v; want nothing admitted", books, err)
	}
	longest := newJob("c", strings.Repeat("k", 256), strings.Repeat("i", 128))
	longest.Payload = []byte(` [1, 2, 3] `) // 7 bytes once it is compact
	admit(t, c, longest)
}

// TestCheck: what the program that submits knows to be wrong is refused before it is sent, by every way in.
func TestCheck(t *testing.T) {
	t.Parallel()
	var asked []string
	c, err := queue.Open(t.Context(), redistest.MiniClient(t), queue.Options{Check: func(typ string, payload []byte) error {
		asked = append(asked, typ+" "+string(payload))
		if string(payload) == `{"bad":1}` {
			return errors.New("it is bad")
		}
		return nil
	}})
	must(t, err)
	put(t, c, "c", 10, "1/1s")
	good, bad := newJob("c", "k", "good"), newJob("c", "k", "bad")
	good.Type, bad.Payload = "t", []byte(`{ "bad": 1 }`)
	refused := func(err error) bool {
		return errors.Is(err, queue.ErrInvalid) && strings.Contains(err.Error(), "it is bad")
	}
	if _, err := c.Submit(t.Context(), bad); !refused(err) {
		t.Errorf("submit: %v", err)
	}
	if _, err := c.SubmitWait(t.Context(), bad); !refused(err) {
		t.Errorf("submit and wait: %v", err)
	}
	if r := c.SubmitMany(t.Context(), []queue.Job{bad, good}); !refused(r[0].Err) || r[1].Err != nil {
		t.Errorf("submit many: %+v", r)
	}
	if want := []string{`http:call {"bad":1}`, `http:call {"bad":1}`, `http:call {"bad":1}`, "t null"}; !slices.Equal(asked, want) {
		t.Errorf("asked about %q", asked)
	}
	if books, err := c.Books(t.Context(), "c"); err != nil || books.Admitted != 1 {
		t.Errorf("books: %+v, %v; want one admitted", books, err)
	}
}

// TestOddKeys: any key works all the way.
func TestOddKeys(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c := openAt(t, rdb, 3)
		put(t, c, "c", 10, "10/1s")
		now := start
		for _, key := range []string{"{x}", "}{", "a b", "../", "日本語", "a/b", "/", ":", "*", "+1:x", `"\`, "%d", " "} {
			now += 1_000_000
			must(t, c.SetClock(t.Context(), now))
			delayed := newJob("c", key, "later:"+key)
			delayed.NotBefore = time.UnixMicro(now + 50_000)
			admit(t, c, newJob("c", key, key), delayed)
			must(t, c.Buckets().Pause(t.Context(), "c", key))
			b, err := c.Buckets().Get(t.Context(), "c", key)
			if err != nil || b.Key != key || b.Line != 1 || b.Later != 1 || !b.Paused {
				t.Errorf("bucket %q: %+v, %v", key, b, err)
			}
			must(t, c.Buckets().Resume(t.Context(), "c", key))
			if got := departAll(t, c); !cmp.Equal(got, []string{key}) {
				t.Errorf("departures of %q: %q", key, got)
			}
			must(t, c.SetClock(t.Context(), now+100_000))
			if got := departAll(t, c); !cmp.Equal(got, []string{"later:" + key}) {
				t.Errorf("delayed departures of %q: %q", key, got)
			}
		}
	})
}

// TestFullBucketThatIsPausedTellsNoTime, whatever the reason and whether it or its class is paused.
func TestFullBucketThatIsPausedTellsNoTime(t *testing.T) {
	t.Parallel()
	c := openAt(t, redistest.MiniClient(t), 1)
	put(t, c, "c", 2, "1/1s")
	admit(t, c, newJob("c", "k", "1"))
	impatient := newJob("c", "k", "impatient")
	impatient.MaxWait = time.Millisecond
	check := func(what string, want bool) {
		t.Helper()
		if full := refused(t, c, impatient); full.Reason != queue.ReasonWouldExpire || full.Paused != want {
			t.Errorf("%s: %+v, want paused %v", what, full, want)
		}
		admit(t, c, newJob("c", "k", what))
		full := refused(t, c, newJob("c", "k", "late"))
		if full.Reason != queue.ReasonFull || full.Paused != want || want != strings.Contains(full.Error(), "no time") {
			t.Errorf("%s: %+v, want paused %v", what, full, want)
		}
		if _, err := c.Buckets().Purge(t.Context(), "c", "k"); err != nil {
			t.Fatal(err)
		}
		admit(t, c, newJob("c", "k", "1"))
	}
	check("open", false)
	must(t, c.Buckets().Pause(t.Context(), "c", "k"))
	check("paused bucket", true)
	must(t, c.Buckets().Resume(t.Context(), "c", "k"))
	must(t, c.Classes().Pause(t.Context(), "c"))
	check("paused class", true)
	must(t, c.Classes().Resume(t.Context(), "c"))
	check("resumed", false)
}

// TestKeysSpreadOverShards: also keys that differ in their last digit only.
func TestKeysSpreadOverShards(t *testing.T) {
	t.Parallel()
	c := openAt(t, redistest.Start(t).Client(t), 4)
	put(t, c, "c", 1, "1/1s")
	var jobs []queue.Job
	for i := range 1000 {
		jobs = append(jobs, newJob("c", fmt.Sprintf("tenant-%03d", i), "1"))
	}
	ten, all := map[byte]int{}, map[byte]int{}
	for i, r := range admit(t, c, jobs...) {
		ten[r.Ref[0]]++
		all[r.Ref[0]]++
		if i%10 == 9 {
			if len(ten) < 2 {
				t.Errorf("ten keys up to %s are all in shard %c", jobs[i].Key, r.Ref[0])
			}
			clear(ten)
		}
	}
	for shard, n := range all {
		if n < 200 || n > 300 {
			t.Errorf("shard %c has %d of 1000 keys", shard, n)
		}
	}
}
