package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options of [Open]. The zero value works.
type Options struct {
	// Prefix begins every key, so that several installations can share a Redis: 1 to 32 of [A-Za-z0-9_.-]. Defaults
	// to "spout".
	Prefix string
	// Shards is the number of slices of the key space, 1 to 256. It is written to Redis at first use (4 when zero) and
	// cannot change afterwards; zero takes what is stored.
	Shards int
	// StoreShare is the share of Redis's maxmemory that is for jobs, above 0 and at most 1: where more is used, submissions
	// are refused as [ReasonStoreFull], and what is there still drains. Defaults to [DefaultStoreShare].
	StoreShare float64
	// Metrics, when not nil, counts what is submitted and times the scripts. Door is where submissions come in, as metrics
	// call it; defaults to [DefaultDoor].
	Metrics *Metrics
	Door    string
	// Check, when set, is asked about each job before it is sent, with its type and its payload, compacted. What it
	// returns is told as [ErrInvalid]. For jobs of the built-in handlers it is handlers.CheckPayload, which refuses here what
	// a worker would fail for good.
	Check func(typ string, payload []byte) error

	clock string // what the scripts take for now_us; tests set it
}

// DefaultPrefix begins all keys unless [Options] say otherwise.
const DefaultPrefix = "spout"

// DefaultStoreShare is the share of maxmemory for jobs, unless [Options] say otherwise.
const DefaultStoreShare = 0.8

const (
	defaultShards = 4
	// schemaVersion is the version of the data this program writes; schemaUnderstood the oldest it can work with, and
	// schemaOldest the oldest program that can work with its data.
	schemaVersion    = 2
	schemaUnderstood = 1
	schemaOldest     = 2
)

// Client is one program's access to the buckets of one installation. Make one with [Open] and share it.
type Client struct {
	rdb      redis.UniversalClient
	scripts  scripts
	prefix   string
	tags     []string // {spout:0}, {spout:1}, …
	doors    []*door  // one per shard: where single submissions are collected
	acked    sync.Map // flightKind -> *door, for receipts that vouch for more than memory: nobody else waits for those
	acks     *ackBook
	store    *storeGauge
	hall     *hall
	metrics  *Metrics
	entrance string // the door, for metrics
	check    func(typ string, payload []byte) error
	asks     asks
}

var validPrefix = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,32}$`)

// Open checks that Redis is fit for the job, agrees with it on the schema and the number of shards, and loads the scripts.
// The redis client stays the caller's to close. Redis' answers are told apart best with go-redis's own retries off
// (MaxRetries: -1): with them a refused connection may hide an earlier try that was carried out. ContextTimeoutEnabled
// makes deadlines hold for connections too.
//
// The errors are [ErrUnavailable] when Redis cannot be reached, and [ErrUnfit] or [ErrSchema] with what to do.
func Open(ctx context.Context, rdb redis.UniversalClient, o Options) (*Client, error) {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.clock == "" {
		o.clock = source("clock")
	}
	if !validPrefix.MatchString(o.Prefix) {
		return nil, fmt.Errorf("%w: prefix %q is not 1 to 32 of A-Z a-z 0-9 _ . -", ErrInvalid, clip(o.Prefix))
	}
	if o.StoreShare == 0 {
		o.StoreShare = DefaultStoreShare
	}
	if o.StoreShare < 0 || o.StoreShare > 1 {
		return nil, fmt.Errorf("%w: store share %v is not between 0 and 1", ErrInvalid, o.StoreShare)
	}
	if o.Shards < 0 || o.Shards > 256 {
		return nil, fmt.Errorf("%w: shards %d is not between 1 and 256", ErrInvalid, o.Shards)
	}
	c := &Client{
		rdb: rdb, scripts: newScripts(o.clock), prefix: o.Prefix, check: o.Check,
		metrics: o.Metrics, entrance: cmp.Or(o.Door, DefaultDoor),
	}
	if err := checkServer(ctx, rdb); err != nil {
		return nil, err
	}
	shards, err := c.agree(ctx, o.Shards)
	if err != nil {
		return nil, err
	}
	for i := range shards {
		c.tags = append(c.tags, "{"+o.Prefix+":"+strconv.Itoa(i)+"}")
		c.doors = append(c.doors, newDoor(c, flightKind{shard: i}))
	}
	c.acks, c.store, c.hall = new(ackBook), newStoreGauge(c, o.StoreShare), newHall(c)
	c.metrics.watch(c)
	return c, c.scripts.load(ctx, rdb)
}

// Redis is the client that [Open] was given.
func (c *Client) Redis() redis.UniversalClient { return c.rdb }

// Shards is the number of slices of the key space.
func (c *Client) Shards() int { return len(c.tags) }

// Prefix begins every key of the installation.
func (c *Client) Prefix() string { return c.prefix }

// ErrUnfit says that the server would lose jobs or cannot run the scripts.
var ErrUnfit = errors.New("queue: redis is not fit")

// ErrSchema says that the data in Redis and this program do not fit together.
var ErrSchema = errors.New("queue: schema")

// agree compares versions and shards with what is stored, and stores them at first use.
func (c *Client) agree(ctx context.Context, shards int) (int, error) {
	key := c.prefix + ":meta"
	v, err := c.scripts.schema.Run(ctx, c.rdb, []string{key}, schemaVersion, schemaUnderstood, shards, defaultShards, schemaOldest).Slice()
	if err != nil {
		return 0, redisError("read "+key, err)
	}
	r := reply(v)
	stored := int(r.int(1))
	switch r.text(0) {
	case "too_old":
		return 0, fmt.Errorf("%w: this program writes version %d, the data in Redis needs %d or newer; upgrade this program",
			ErrSchema, schemaVersion, stored)
	case "too_new":
		return 0, fmt.Errorf("%w: the data in Redis has version %d, this program needs %d or newer; "+
			"run a release in between first", ErrSchema, stored, schemaUnderstood)
	case "shards":
		return 0, fmt.Errorf("%w: this installation has %d shards, not %d; the number cannot change after first use: "+
			"leave the setting out, or choose another prefix", ErrSchema, stored, shards)
	}
	return stored, nil
}

// checkServer refuses a server that would drop keys, is too old, or is a cluster node behind a plain client.
func checkServer(ctx context.Context, rdb redis.UniversalClient) error {
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return checkNode(ctx, node, true)
		})
	}
	return checkNode(ctx, rdb, false)
}

func checkNode(ctx context.Context, node redis.Cmdable, clustered bool) error {
	text, err := node.Info(ctx).Result()
	if err != nil {
		return readError("read redis's INFO", err)
	}
	info := parseInfo(text)
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		return fmt.Errorf("%w: its maxmemory-policy is %s, so it may drop jobs: CONFIG SET maxmemory-policy noeviction, "+
			"and the same in its configuration file", ErrUnfit, policy)
	}
	if !clustered && info["cluster_enabled"] == "1" {
		return fmt.Errorf("%w: this address is a node of a Redis Cluster: connect with redis+cluster://host:port,host:port",
			ErrUnfit)
	}
	if major, err := strconv.Atoi(strings.Split(info["redis_version"], ".")[0]); err == nil && major < 7 && info["redis_mode"] != "" {
		return fmt.Errorf("%w: it is version %s; 7.0 or later is needed", ErrUnfit, info["redis_version"])
	}
	return nil
}

// ServerInfo is a server's INFO as a map, nil when it cannot be read.
func ServerInfo(ctx context.Context, node redis.Cmdable) map[string]string {
	text, err := node.Info(ctx).Result()
	if err != nil {
		return nil
	}
	return parseInfo(text)
}

func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// run calls a script on one shard.
func (c *Client) run(ctx context.Context, script *redis.Script, shard int, what string, args ...any) (reply, error) {
	v, err := script.Run(ctx, c.rdb, []string{c.tags[shard]}, args...).Slice()
	if err != nil {
		return nil, redisError(what, err)
	}
	return v, nil
}

// look calls a script on one shard that changes nothing.
func (c *Client) look(ctx context.Context, script *redis.Script, shard int, what string, args ...any) (reply, error) {
	v, err := script.Run(ctx, c.rdb, []string{c.tags[shard]}, args...).Slice()
	if err != nil {
		return nil, readError(what, err)
	}
	return v, nil
}

// key names a key of a shard.
func (c *Client) key(shard int, kind, name string) string {
	return c.tags[shard] + ":" + kind + ":" + name
}

// Now is the Redis server's time, which all times of this package are.
func (c *Client) Now(ctx context.Context) (time.Time, error) {
	t, err := c.rdb.Time(ctx).Result()
	if err != nil {
		return t, redisError("read redis's time", err)
	}
	return t, nil
}
