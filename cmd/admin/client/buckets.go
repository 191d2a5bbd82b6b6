package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// targetPath is where a bucket is, or with an empty key all buckets of a class. The key goes into the query: there it can be
// anything.
func targetPath(class, key, action string) (string, error) {
	if key == "" {
		return classPath(class, action)
	}
	if err := queue.CheckKey(key); err != nil {
		return "", err
	}
	return classPath(class, "/bucket"+action)
}

// Bucket reads one bucket. One that nobody used lately is empty, which is no error. Its At and Interval are not known.
func (c *Client) Bucket(ctx context.Context, class, key string) (queue.Bucket, error) {
	if err := queue.CheckKey(key); err != nil {
		return queue.Bucket{}, err
	}
	path, err := targetPath(class, key, "")
	if err != nil {
		return queue.Bucket{}, err
	}
	bucket, err := get[wire.Bucket](ctx, c, "read bucket "+class+"/"+key, path, values("key", key))
	if err != nil {
		return queue.Bucket{}, err
	}
	return bucket.ToQueue(), nil
}

// Buckets goes through all buckets that a query asks for, see [queue.Buckets.Page]; its Limit is the size of one page. An error
// ends it.
func (c *Client) Buckets(ctx context.Context, q queue.BucketQuery) iter.Seq2[queue.Bucket, error] {
	query := values("order", "name", "class", q.Class, "prefix", q.Prefix, "cursor", q.After, "limit", orEmpty(q.Limit))
	return pages(ctx, c, "list buckets", "/v1/buckets", query, sure(wire.Bucket.ToQueue))
}

// Fullest lists up to limit buckets of a class, 1 to 1000: sick ones, and then the fullest first, of those that are due first; see
// [queue.Buckets.List].
func (c *Client) Fullest(ctx context.Context, class string, limit int) ([]queue.Bucket, error) {
	if !className.MatchString(class) {
		return nil, fmt.Errorf("%w: %q", queue.ErrUnknownClass, class)
	}
	page, err := get[wire.Page[wire.Bucket]](ctx, c, "list buckets", "/v1/buckets",
		values("order", "pressure", "class", class, "limit", strconv.Itoa(limit)))
	list := make([]queue.Bucket, len(page.Items))
	for i, bucket := range page.Items {
		list[i] = bucket.ToQueue()
	}
	return list, err
}

// Pause closes a bucket, or with an empty key a whole class, until it is resumed. Like all of these it tells whether that changed
// anything: it may have been so already.
func (c *Client) Pause(ctx context.Context, class, key string) (changed bool, err error) {
	return c.operate(ctx, "pause", class, key, nil)
}

// Resume ends a pause and a drain, and opens a bucket that workers had set aside.
func (c *Client) Resume(ctx context.Context, class, key string) (changed bool, err error) {
	return c.operate(ctx, "resume", class, key, nil)
}

// Drain admits nothing more into a bucket, or a class, and lets it empty, until it is resumed.
func (c *Client) Drain(ctx context.Context, class, key string) (changed bool, err error) {
	return c.operate(ctx, "drain", class, key, nil)
}

// Hold closes a bucket, or a class, until a time, in place of any hold before.
func (c *Client) Hold(ctx context.Context, class, key string, until time.Time) (changed bool, err error) {
	return c.operate(ctx, "hold", class, key, wire.Hold{Until: new(wire.Time(until))})
}

// HoldFor is Hold from now on, by the clock of Redis.
func (c *Client) HoldFor(ctx context.Context, class, key string, period time.Duration) (changed bool, err error) {
	return c.operate(ctx, "hold", class, key, wire.Hold{For: wire.Duration(period)})
}

// Unhold ends the hold of a bucket, or of a class.
func (c *Client) Unhold(ctx context.Context, class, key string) (changed bool, err error) {
	return c.operate(ctx, "unhold", class, key, nil)
}

func (c *Client) operate(ctx context.Context, action, class, key string, body any) (changed bool, err error) {
	path, err := targetPath(class, key, "/"+action)
	if err != nil {
		return false, err
	}
	var now struct {
		Unchanged bool `json:"unchanged"`
	}
	ask := call{what: action + " " + nameOf(class, key), method: http.MethodPost, path: path, query: values("key", key), body: body, wait: longTime}
	_, err = c.do(ctx, ask, &now)
	return err == nil && !now.Unchanged, err
}

func nameOf(class, key string) string {
	if key == "" {
		return "class " + class
	}
	return "bucket " + class + "/" + key
}

// Purge drops all jobs that wait in a bucket, or with an empty key in a class, and tells how many, also when it fails then.
func (c *Client) Purge(ctx context.Context, class, key string) (int, error) {
	ask, err := purgeCall(class, key)
	if err != nil {
		return 0, err
	}
	return c.purge(ctx, ask)
}

// WouldPurge is how many jobs Purge would drop.
func (c *Client) WouldPurge(ctx context.Context, class, key string) (int, error) {
	ask, err := purgeCall(class, key)
	if err != nil {
		return 0, err
	}
	return c.wouldPurge(ctx, ask)
}

func purgeCall(class, key string) (call, error) {
	path, err := targetPath(class, key, "/purge")
	return call{what: "purge " + nameOf(class, key), method: http.MethodPost, path: path, query: values("key", key), wait: longTime}, err
}

func (c *Client) purge(ctx context.Context, ask call) (int, error) {
	var done wire.Purged
	err := c.confirmed(ctx, ask, &done)
	if some := doneBefore(err); some != nil {
		return some.Waiting + some.Dead, err
	}
	return done.Purged, err
}

// wouldPurge asks without saying yes.
func (c *Client) wouldPurge(ctx context.Context, ask call) (int, error) {
	var done wire.Purged
	_, err := c.do(ctx, ask, &done)
	question := asked(err)
	switch {
	case err == nil: // there was nothing to ask about
		return done.Purged, nil
	case question == nil:
		return 0, err
	}
	n, err := strconv.Atoi(question.problem.Confirm)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: the server asks to confirm %q, which is no number of jobs", queue.ErrUnavailable, ask.what, question.problem.Confirm)
	}
	return n, nil
}
