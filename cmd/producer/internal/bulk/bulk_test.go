package bulk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spout-queue/spout/cmd/producer/internal/bulk"
	"github.com/spout-queue/spout/queue"
)

// outcome collects what a run reports.
type outcome struct {
	answered map[int]int // times, by line
	log      strings.Builder
}

func (o *outcome) options(full bulk.OnFull, batch int) bulk.Options {
	o.answered = map[int]int{}
	return bulk.Options{
		OnFull: full, Batch: batch, Patience: 30 * time.Second,
		Answer: func(number int, _ queue.Receipt, _ error) error {
			o.answered[number]++
			return nil
		},
		Progress: func(bulk.Summary) {},
		Log:      slog.New(slog.NewTextHandler(&o.log, nil)),
	}
}

func jobLine(key string, id int) string {
	return fmt.Sprintf(`{"class":"c","key":%q,"id":"%06d","payload":%d}`+"\n", key, id, id)
}

// inOrder checks that a bucket got all jobs, once and in the order of the input.
func (s *shop) inOrder(t *testing.T, want map[string][]string) {
	t.Helper()
	for name, ids := range want {
		if got := s.buckets[name].ids; !slices.Equal(got, ids) {
			t.Errorf("bucket %s got %d jobs, want %d, or they are in another order:\n%.200v\n%.200v", name, len(got), len(ids), got, ids)
		}
	}
}

func TestWaitKeepsOrder(t *testing.T) {
	t.Parallel()
	for _, flaky := range []bool{false, true} {
		for seed := range uint64(20) {
			t.Run(fmt.Sprintf("flaky=%v/%d", flaky, seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { waitKeepsOrder(t, flaky, seed) })
			})
		}
	}
}

func waitKeepsOrder(t *testing.T, flaky bool, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	s := newShop(1+random.IntN(40), time.Duration(1+random.IntN(50))*time.Millisecond)
	if flaky {
		s.flaky = random
	}
	var input strings.Builder
	want := map[string][]string{}
	buckets, terms := 1+random.IntN(8), random.IntN(2)
	for i := range 1500 {
		key := fmt.Sprint(random.IntN(buckets))
		line := jobLine(key, i)
		if terms > 0 && random.IntN(3) == 0 {
			line = strings.Replace(line, "}", fmt.Sprintf(`,"max_wait":"%dms"}`, 1+random.IntN(200)), 1)
		}
		input.WriteString(line)
		want["c/"+key] = append(want["c/"+key], fmt.Sprintf("%06d", i))
	}
	var o outcome
	sum, err := bulk.Run(t.Context(), s, strings.NewReader(input.String()), o.options(bulk.Wait, 1+random.IntN(100)))
	if err != nil {
		t.Fatal(err)
	}
	s.inOrder(t, want)
	if sum.Admitted+sum.Duplicate != 1500 || sum.Answered() != 1500 || sum.Unanswered != 0 || sum.Bytes != int64(input.Len()) {
		t.Errorf("got %+v", sum)
	}
	if !flaky && sum.Duplicate != 0 {
		t.Errorf("%d duplicates", sum.Duplicate)
	}
	if n := slices.Max(slices.Collect(maps.Values(o.answered))); len(o.answered) != 1500 || n != 1 {
		t.Errorf("%d lines were answered, one of them %d times", len(o.answered), n)
	}
}

// TestWaitKeepsBucketsBusy: a bucket is never empty while the file has jobs for it, and no refusal is in vain too often.
func TestWaitKeepsBucketsBusy(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{100 * time.Microsecond, 5 * time.Millisecond, time.Second} {
		t.Run(interval.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const jobs, capacity = 5000, 1000
				var input strings.Builder
				for i := range jobs {
					input.WriteString(jobLine("k", i))
				}
				s := newShop(capacity, interval)
				var o outcome
				start := time.Now()
				if _, err := bulk.Run(t.Context(), s, strings.NewReader(input.String()), o.options(bulk.Wait, 100)); err != nil {
					t.Fatal(err)
				}
				least := (jobs - capacity - 1) * interval
				if took := time.Since(start); took > least+least/50+100*time.Millisecond {
					t.Errorf("took %v, want about %v", took, least)
				}
				if s.refusals > 2*jobs {
					t.Errorf("%d refusals of %d jobs", s.refusals, jobs)
				}
			})
		})
	}
}

func TestFullBucketDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(10, time.Hour)
		var input strings.Builder
		for i := range 5000 { // all but ten of which wait, for hours
			input.WriteString(jobLine("slow", i))
		}
		for i := range 1000 {
			input.WriteString(jobLine(fmt.Sprint(i), i))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var o outcome
		sum, err := bulk.Run(ctx, s, strings.NewReader(input.String()), o.options(bulk.Wait, 100))
		if !errors.Is(err, context.DeadlineExceeded) || sum.Admitted != 1010 || sum.Unanswered != 4990 {
			t.Errorf("got %+v, %v", sum, err)
		}
	})
}

// endless is an input that never ends, and counts what is read of it.
type endless struct {
	line string
	read int
}

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, e.line[e.read%len(e.line):])
	e.read += n
	return n, nil
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"short": `{"class":"c","key":"k","payload":1}` + "\n",
		"long":  `{"class":"c","key":"k","payload":"` + strings.Repeat("x", 1<<20-100) + `"}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				input := &endless{line: line}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var o outcome
				options := o.options(bulk.Wait, 100)
				options.Hold(1000, 4<<20)
				sum, err := bulk.Run(ctx, newShop(2, time.Hour), input, options)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				synctest.Wait() // until the reader has ended
				if sum.Unanswered > 1100 || input.read > 12<<20 {
					t.Errorf("%d lines are held, %d bytes were read", sum.Unanswered, input.read)
				}
			})
		})
	}
}

func TestBadLines(t *testing.T) {
	t.Parallel()
	var input strings.Builder
	input.WriteString(jobLine("k", 1) + "\n  \n" + "{\r\n" + jobLine("k", 2))
	input.WriteString(`{"class":"c","key":"k","payload":"` + strings.Repeat("x", 3<<20) + "\"}\n")
	input.WriteString(`{"class":"c","key":"k","payload":"` + strings.Repeat("x", 1<<20) + "\"}\n")
	for range 30 {
		input.WriteString(`{"class":"none","key":"k","payload":1}` + "\n")
	}
	input.WriteString(strings.TrimSuffix(jobLine("k", 3), "\n"))

	s := newShop(10, time.Second)
	var o outcome
	sum, err := bulk.Run(t.Context(), s, strings.NewReader(input.String()), o.options(bulk.Wait, 10))
	if err != nil {
		t.Fatal(err)
	}
	s.inOrder(t, map[string][]string{"c/k": {"000001", "000002", "000003"}})
	want := map[queue.Reason]int{queue.ReasonInvalid: 1, queue.ReasonTooLarge: 2, queue.ReasonUnknownClass: 30}
	if !maps.Equal(sum.Rejected, want) || sum.Bad != 33 || len(sum.BadLines) != 20 || sum.Admitted != 3 {
		t.Errorf("got %+v", sum)
	}
	if got := []int{sum.BadLines[0].Number, sum.BadLines[1].Number, sum.BadLines[2].Number}; !slices.Equal(got, []int{4, 6, 7}) {
		t.Errorf("bad lines are %v", got)
	}
	if sum.Bytes > int64(input.Len()) || sum.Bytes < int64(input.Len())-10 { // blank lines have no answer
		t.Errorf("%d bytes of %d are answered", sum.Bytes, input.Len())
	}
}

func TestSkip(t *testing.T) {
	t.Parallel()
	var input strings.Builder
	for i := range 100 {
		input.WriteString(jobLine(fmt.Sprint(i%2), i))
	}
	var o outcome
	sum, err := bulk.Run(t.Context(), newShop(10, time.Hour), strings.NewReader(input.String()), o.options(bulk.Skip, 100))
	if err != nil || sum.Admitted != 20 || sum.Skipped != 80 || sum.Rejected[queue.ReasonFull] != 80 || sum.Bad != 0 {
		t.Errorf("got %+v, %v", sum, err)
	}
}

// TestDraining: no waiting helps a job of a bucket that is draining. It has its answer at once, and the others go on.
func TestDraining(t *testing.T) {
	t.Parallel()
	var input strings.Builder
	for i := range 30 {
		input.WriteString(strings.Replace(jobLine("k", i), `"c"`, `"draining"`, 1))
		input.WriteString(jobLine("k", i))
	}
	for _, full := range []bulk.OnFull{bulk.Wait, bulk.Skip, bulk.Fail} {
		s := newShop(100, time.Second)
		var o outcome
		sum, err := bulk.Run(t.Context(), s, strings.NewReader(input.String()), o.options(full, 10))
		if full == bulk.Fail {
			if !errors.Is(err, bulk.ErrDraining) || !strings.HasPrefix(err.Error(), "line 1: stopped at a draining bucket: ") {
				t.Errorf("%s: got %v", full, err)
			}
			continue
		}
		if err != nil || sum.Admitted != 30 || sum.Closed != 30 || sum.Bad+sum.Skipped != 0 || sum.Answered() != 60 || len(sum.BadLines) != 20 {
			t.Errorf("%s: got %+v, %v", full, sum, err)
		}
	}
}

// TestStoreFull: a Redis without memory is asked once a second, whatever it says.
func TestStoreFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(1000, time.Millisecond)
		s.outTill = time.Now().Add(10 * time.Second)
		var input strings.Builder
		for i := range 50 {
			input.WriteString(jobLine("k", i))
		}
		var o outcome
		sum, err := bulk.Run(t.Context(), s, strings.NewReader(input.String()), o.options(bulk.Wait, 100))
		if err != nil || sum.Admitted != 50 {
			t.Fatalf("got %+v, %v", sum, err)
		}
		for i := 1; i < len(s.asked) && s.asked[i-1].Before(s.outTill); i++ {
			if gap := s.asked[i].Sub(s.asked[i-1]); gap < time.Second {
				t.Errorf("asked again after %v", gap)
			}
		}
		if !strings.Contains(o.log.String(), "redis is full") {
			t.Errorf("not logged: %s", o.log.String())
		}

		s.outTill = time.Now().Add(time.Hour)
		sum, err = bulk.Run(t.Context(), s, strings.NewReader(jobLine("new", 1)), o.options(bulk.Skip, 100))
		if err != nil || sum.Skipped != 1 {
			t.Errorf("skip: got %+v, %v", sum, err)
		}
	})
}

func TestAck(t *testing.T) {
	t.Parallel()
	s := newShop(10, time.Second)
	s.acks = map[queue.Ack]int{}
	var o outcome
	options := o.options(bulk.Wait, 10)
	options.Ack = queue.AckFsynced
	sum, err := bulk.Run(t.Context(), s, strings.NewReader(jobLine("a", 1)+jobLine("b", 2)), options)
	if err != nil || sum.Admitted != 2 || s.acks[queue.AckFsynced] != 2 || len(s.acks) != 1 {
		t.Errorf("got %+v, %v, %v", sum, err, s.acks)
	}
}

func TestFail(t *testing.T) {
	t.Parallel()
	var input strings.Builder
	for i := range 5000 {
		input.WriteString(jobLine("k", i))
	}
	var o outcome
	sum, err := bulk.Run(t.Context(), newShop(10, time.Hour), strings.NewReader(input.String()), o.options(bulk.Fail, 7))
	if !errors.Is(err, bulk.ErrFull) || !strings.HasPrefix(err.Error(), "line 11: ") {
		t.Errorf("got %v", err)
	}
	if full, ok := errors.AsType[*queue.FullError](err); !ok || full.Capacity != 10 {
		t.Errorf("got %v", err)
	}
	if sum.Admitted != 10 || sum.Answered() != 11 {
		t.Errorf("got %+v", sum)
	}
}

func TestAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(1000, time.Second)
		s.downTill = time.Now().Add(time.Hour)
		start := time.Now()
		var o outcome
		sum, err := bulk.Run(t.Context(), s, strings.NewReader(jobLine("a", 1)+jobLine("b", 2)), o.options(bulk.Wait, 10))
		if !errors.Is(err, queue.ErrUnavailable) || sum.Unanswered != 2 {
			t.Errorf("got %+v, %v", sum, err)
		}
		if took := time.Since(start); took < 30*time.Second || took > 40*time.Second || s.calls > 40 {
			t.Errorf("gave up after %v and %d calls", took, s.calls)
		}
		if n := strings.Count(o.log.String(), "redis does not answer"); n < 2 || n > 10 {
			t.Errorf("logged %d times", n)
		}
	})
}

func TestComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(1000, time.Second)
		s.downTill = time.Now().Add(10 * time.Second)
		s.fullTill = time.Now().Add(20 * time.Second)
		var input strings.Builder
		for i := range 200 {
			input.WriteString(jobLine("k", i))
		}
		start := time.Now()
		var o outcome
		sum, err := bulk.Run(t.Context(), s, strings.NewReader(input.String()), o.options(bulk.Wait, 10))
		if err != nil || sum.Admitted != 200 {
			t.Errorf("got %+v, %v", sum, err)
		}
		if took := time.Since(start); took > 27*time.Second {
			t.Errorf("took %v", took)
		}
		if !strings.Contains(o.log.String(), "paused") {
			t.Errorf("the pause was not logged: %s", o.log.String())
		}
	})
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe() // nobody closes it: the reader stays in Read
		go func() { _, _ = io.WriteString(out, jobLine("k", 1)+jobLine("k", 2)) }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var o outcome
		sum, err := bulk.Run(ctx, newShop(10, time.Second), in, o.options(bulk.Wait, 10))
		if !errors.Is(err, context.DeadlineExceeded) || sum.Admitted != 2 {
			t.Errorf("got %+v, %v", sum, err)
		}
		_ = out.Close()
	})
}

type failing struct{ io.Reader }

func (f failing) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	if errors.Is(err, io.EOF) {
		err = errors.New("bad sector")
	}
	return n, err
}

func TestInputFails(t *testing.T) {
	t.Parallel()
	var o outcome
	_, err := bulk.Run(t.Context(), newShop(10, time.Second), failing{strings.NewReader(jobLine("k", 1))}, o.options(bulk.Wait, 10))
	if !errors.Is(err, bulk.ErrInput) || !strings.Contains(err.Error(), "bad sector") {
		t.Errorf("got %v", err)
	}
}
