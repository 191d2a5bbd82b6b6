package client

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// pathOf is where a job is. What no ref can look like is refused here: it might lead elsewhere.
func pathOf(ref, action string) (string, error) {
	if ref == "" || strings.ContainsAny(ref, "/.%?# \n") {
		return "", fmt.Errorf("%w: %q is not a ref of this installation; take it from a receipt", queue.ErrInvalid, ref)
	}
	return "/v1/jobs/" + url.PathEscape(ref) + action, nil
}

// Job reads one job by its ref. The error wraps [queue.ErrNotFound] when it is gone, or never was.
func (c *Client) Job(ctx context.Context, ref string) (queue.JobState, error) {
	path, err := pathOf(ref, "")
	if err != nil {
		return queue.JobState{}, err
	}
	job, err := get[wire.JobState](ctx, c, "read job "+ref, path, nil)
	if err != nil {
		return queue.JobState{}, err
	}
	return job.ToQueue()
}

// Jobs goes through the jobs that a query asks for, all pages from the one behind its After on; its Limit is the size of one
// page. Those that wait come bucket by bucket, in the order in which they leave; dead ones the newest first. An error ends it.
func (c *Client) Jobs(ctx context.Context, q queue.JobQuery) iter.Seq2[queue.JobState, error] {
	query := values("class", q.Class, "key", q.Key, "state", string(q.State), "cursor", q.After, "limit", orEmpty(q.Limit))
	return pages(ctx, c, "list jobs of class "+q.Class, "/v1/jobs", query, wire.JobState.ToQueue)
}

func orEmpty(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// Cancel ends a job, see [queue.Client.Cancel].
func (c *Client) Cancel(ctx context.Context, ref string) (queue.State, error) {
	path, err := pathOf(ref, "/cancel")
	if err != nil {
		return "", err
	}
	done, err := post[wire.Cancelled](ctx, c, "cancel job "+ref, path, nil, nil)
	return done.State, err
}

// Retry sends one dead job round again, see [queue.DeadJobs.Retry].
func (c *Client) Retry(ctx context.Context, ref string) (queue.Receipt, error) {
	path, err := pathOf(ref, "/retry")
	if err != nil {
		return queue.Receipt{}, err
	}
	receipt, err := post[wire.Receipt](ctx, c, "retry job "+ref, path, nil, nil)
	if err != nil {
		return queue.Receipt{}, err
	}
	return receipt.ToQueue(), nil
}

// awaitStep is how long one request waits for an end.
const awaitStep = 30 * time.Second

// Await waits until a job has ended. For a job that had ended before, it tells what the class's retention keeps; the error
// wraps [queue.ErrNotFound] when nothing is kept, or there never was such a job. It returns when ctx ends.
func (c *Client) Await(ctx context.Context, ref string) (queue.Ending, error) {
	path, err := pathOf(ref, "/end")
	if err != nil {
		return queue.Ending{}, err
	}
	ask := call{
		what: "wait for the end of job " + ref, method: http.MethodGet, path: path, query: values("wait", awaitStep.String()),
		again: true, wait: awaitStep,
	}
	for pause := leastPause; ; {
		var ending wire.Ending
		asked := time.Now()
		status, err := c.do(ctx, ask, &ending)
		switch {
		case ctx.Err() != nil:
			return queue.Ending{}, fmt.Errorf("%s: %w", ask.what, context.Cause(ctx))
		case err != nil:
			return queue.Ending{}, err
		case status == http.StatusOK:
			return ending.ToQueue()
		case time.Since(asked) < awaitStep/2: // it did not wait: too many do already
			_ = sleep(ctx, pause/2+rand.N(pause/2)) //nolint:gosec // only to spread load; the end of ctx is seen above
			pause = min(2*pause, mostPause)
		default: // at once: of a class that keeps nothing, an end is heard by who listens
			pause = leastPause
		}
	}
}
