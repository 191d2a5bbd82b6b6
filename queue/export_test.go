package queue

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// OpenWithClock opens a client whose scripts take the time from the key {prefix:shard}:clock, in microseconds.
func OpenWithClock(ctx context.Context, rdb redis.UniversalClient, o Options) (*Client, error) {
	o.clock = "local function now_us() return tonumber(redis.call('GET', KEYS[1] .. ':clock')) end\n"
	return Open(ctx, rdb, o)
}

// SetClock sets the time of all shards, in microseconds.
func (c *Client) SetClock(ctx context.Context, us int64) error {
	for shard := range c.tags {
		if err := c.rdb.Set(ctx, c.tags[shard]+":clock", us, 0).Err(); err != nil {
			return err
		}
	}
	return nil
}

// RecordPoint records the point of this moment, as [Client.Record] does again and again.
func (c *Client) RecordPoint(ctx context.Context) (next time.Duration, err error) {
	return c.recordPoint(ctx)
}
