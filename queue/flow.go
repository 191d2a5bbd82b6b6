package queue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// askEvery is how often at most one client asks workers the same.
	askEvery = 2 * time.Second
	// AskedFor is how long workers answer a question that is not asked again.
	AskedFor = 5 * time.Second
	// FlowOver is the time that a flow is of.
	FlowOver = 5 * time.Second
	// StartsOver is how far back workers remember starts.
	StartsOver = time.Minute
)

// Start is one start of a handler.
type Start struct {
	// Due is when the job was to leave its bucket, and Started when its handler was called, by the server's time. Lateness is
	// the time between them.
	Due, Started time.Time
	Lateness     time.Duration
	Worker       string
	// Back: this is no start, but a departure that went back to its bucket at Started, since it did not start or its attempt was given
	// back or held.
	Back bool
}

// Flow is how many jobs of each bucket (class/key) started per second over the last 5 s, as workers tell while somebody asks:
// for up to 5,000 buckets each, the busiest. Buckets without a start are not in it. It takes one command. Workers begin to
// answer within a second or so of the first question, until then there is nothing; they go on for 5 s after the last.
func (c *Client) Flow(ctx context.Context) (map[string]float64, error) {
	r, err := c.look(ctx, c.scripts.record, 0, "read the flow of buckets", "flow", c.asks.due(""))
	if err != nil {
		return nil, err
	}
	flow := map[string]float64{}
	for i := 2; i < len(r); i += 2 {
		for line := range strings.Lines(r.text(i)) {
			rate, bucket, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if perSecond, err := strconv.ParseFloat(rate, 64); err == nil {
				flow[bucket] += perSecond
			}
		}
	}
	return flow, nil
}

// Starts are the starts of one bucket in the last minute, and the departures that went back, oldest first, as workers tell while
// somebody asks, up to 2,000 of each of them. It is asked and answered as [Client.Flow] is, for up to 20 buckets at a time.
func (c *Client) Starts(ctx context.Context, class, key string) ([]Start, error) {
	if err := c.Buckets().check(class, key); err != nil {
		return nil, err
	}
	bucket := class + "/" + key
	r, err := c.look(ctx, c.scripts.record, 0, "read the starts of bucket "+bucket, "starts", c.asks.due(bucket), bucket)
	if err != nil {
		return nil, err
	}
	since := time.UnixMicro(r.int(0)).Add(-StartsOver)
	var starts []Start
	for i := 1; i+1 < len(r); i += 2 {
		for line := range strings.Lines(r.text(i + 1)) {
			due, at, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			at, back := strings.CutSuffix(at, startBack)
			s := Start{Due: time.UnixMicro(parseInt(due)).UTC(), Started: time.UnixMicro(parseInt(at)).UTC(), Worker: r.text(i), Back: back}
			if s.Lateness = s.Started.Sub(s.Due); s.Started.After(since) {
				starts = append(starts, s)
			}
		}
	}
	slices.SortFunc(starts, func(a, b Start) int { return a.Started.Compare(b.Started) })
	return starts, nil
}

// startBack marks what is no start. A build that does not know it leaves such a line out.
const startBack = " back"

// Answers are what a worker tells of its starts, since it was asked.
type Answers struct {
	// Flow is starts per second by bucket; nil when nobody asked for it.
	Flow map[string]float64
	// Starts of the buckets that were asked for.
	Starts map[string][]Start
}

// Answer tells what was asked, see [Client.Wakes]. It is kept for some seconds.
func (c *Client) Answer(ctx context.Context, worker string, a Answers) error {
	args := []any{"answer", worker, ""}
	if a.Flow != nil {
		var text []byte
		for bucket, perSecond := range a.Flow {
			text = fmt.Appendf(text, "%.3f %s\n", perSecond, bucket)
		}
		args[2] = string(text)
	}
	for bucket, starts := range a.Starts {
		var text []byte
		for _, s := range starts {
			back := ""
			if s.Back {
				back = startBack
			}
			text = fmt.Appendf(text, "%d %d%s\n", s.Due.UnixMicro(), s.Started.UnixMicro(), back)
		}
		args = append(args, bucket, string(text))
	}
	if err := c.scripts.record.Run(ctx, c.rdb, []string{c.tags[0]}, args...).Err(); err != nil {
		return redisError("tell the starts of worker "+worker, err)
	}
	return nil
}

// asks remembers what this client asked lately, so that it does not ask more often than needed.
type asks struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// due is 1 when a question must be asked again, else 0.
func (a *asks) due(question string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if now.Sub(a.last[question]) < askEvery {
		return 0
	}
	if a.last == nil {
		a.last = map[string]time.Time{}
	}
	for q, at := range a.last {
		if now.Sub(at) > AskedFor {
			delete(a.last, q)
		}
	}
	a.last[question] = now
	return 1
}
