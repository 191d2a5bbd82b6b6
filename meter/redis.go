package meter

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Redis returns a store on a Redis 7.0 or later, alone, with sentinels or a cluster: any go-redis client. Each call is one
// round trip and one script, which checks of several callers share when they come at once. It does not connect.
func Redis(client redis.Scripter) Store { return newRedis(client, source("clock")) }

type redisStore struct {
	client  redis.Scripter
	scripts *scripts
	slots   bool    // keys of one call must share a hash slot
	door    *door   // nil when checks cannot go together
	local   *memory // decides for meters with AwayLocal while Redis is away
}

func newRedis(client redis.Scripter, clock string) *redisStore {
	s := &redisStore{client: client, scripts: newScripts(clock), local: newMemory(mostKeys)}
	switch client.(type) {
	case *redis.ClusterClient, *redis.Ring:
		s.slots = true
	case *redis.Client: // of others it is not known where their keys lie
		s.door = newDoor(client, s.scripts.checks)
	}
	return s
}

func (s *redisStore) open(w *law, prefix string) keeper {
	name, numbers := w.script()
	k := &redisKeeper{store: s, law: name, prefix: prefix + w.name()}
	k.script = s.scripts.plain[name]
	if w.strikes > 0 {
		k.script = s.scripts.judged[name]
		k.penalty = []any{w.strikes, w.within, w.closure}
	}
	k.numbers = []any{numbers[0], numbers[1], numbers[2]}
	k.quick = w.kind == bucketKind && w.strikes == 0
	return k
}

// redisKeeper keeps the meters of one law in Redis.
type redisKeeper struct {
	store            *redisStore
	law, prefix      string
	script           *redis.Script
	numbers, penalty []any
	quick            bool // has the hot path
}

func (k *redisKeeper) do(ctx context.Context, key string, c call) (answer, error) {
	if k.quick && c.op == opTake && c.least == c.most && c.arg == 0 {
		return k.store.door.check(ctx, k, key, c.least)
	}
	var keys [2]string
	keys[0] = k.name(key)
	n := 1
	if k.penalty != nil {
		keys[1] = k.penanceName(key)
		n = 2
	}
	args := make([]any, 0, 10)
	args = append(args, int64(c.op), c.least, c.most, c.arg)
	args = append(append(args, k.numbers...), k.penalty...)
	reply, err := k.script.Run(ctx, k.store.client, keys[:n], args...).Int64Slice()
	if err != nil {
		return answer{}, redisError("ask the meter of "+clip(key), err)
	}
	answers, err := readAnswers(reply, 1)
	if err != nil {
		return answer{}, err
	}
	return answers[0], nil
}

// check is do for the hot path.
func (k *redisKeeper) check(ctx context.Context, key string, n int64) (answer, error) {
	keys := [1]string{k.name(key)}
	r, err := k.store.scripts.check.Run(ctx, k.store.client, keys[:], n, k.numbers[0], k.numbers[1], k.numbers[2]).Int64Slice()
	if err != nil {
		return answer{}, redisError("ask the meter of "+clip(key), err)
	}
	if len(r) != 4 {
		return answer{}, replyError(len(r))
	}
	return checked(r, n), nil
}

func (k *redisKeeper) reset(ctx context.Context, key string) error {
	err := k.store.scripts.reset.Run(ctx, k.store.client, []string{k.name(key), k.penanceName(key)}).Err()
	if err != nil {
		return redisError("reset the meter of "+clip(key), err)
	}
	return nil
}

// name is the Redis key of a meter.
func (k *redisKeeper) name(key string) string {
	before, after := braces(key)
	return k.prefix + before + key + after
}

// penanceName is the Redis key of a penalty's refusals, in the same slot. What sets it apart stands before the key, since a key
// may end as it likes.
func (k *redisKeeper) penanceName(key string) string {
	before, after := braces(key)
	return k.prefix + "!" + before + key + after
}

// braces are what makes a hash tag of a key, so that its meters under several limits share a slot of a cluster. One that has a
// tag keeps it, and one that would end the tag before it has begun gets another. The first character tells the three apart.
func braces(key string) (before, after string) {
	switch _, tagged := tag(key); {
	case tagged:
		return "/", ""
	case key[0] == '}':
		return "'{'", "}"
	default:
		return ":{", "}"
	}
}

// tag is the part of a key that Redis Cluster hashes, if the key has one: what is between the first { and the next }.
func tag(key string) (string, bool) {
	_, rest, open := strings.Cut(key, "{")
	t, _, closed := strings.Cut(rest, "}")
	return t, open && closed && t != ""
}

func (s *redisStore) all(ctx context.Context, claims []claim) ([]answer, error) {
	keys := make([]string, 0, 2*len(claims))
	args := make([]any, 0, 9*len(claims))
	for _, c := range claims {
		k, ok := c.keeper.(*redisKeeper)
		if !ok {
			return nil, fmt.Errorf("%w: claims of different stores", ErrInvalid)
		}
		keys = append(keys, k.name(c.key), k.penanceName(c.key))
		must := 0
		if c.must {
			must = 1
		}
		args = append(append(args, k.law, must, c.cost), k.numbers...)
		if k.penalty == nil {
			args = append(args, 0, 0, 0)
		}
		args = append(args, k.penalty...)
	}
	if err := s.oneSlot(claims); err != nil {
		return nil, err
	}
	reply, err := s.scripts.all.Run(ctx, s.client, keys, args...).Int64Slice()
	if err != nil {
		return nil, redisError("ask several meters", err)
	}
	return readAnswers(reply, len(claims))
}

// oneSlot refuses what a cluster cannot do at once. Two tags may share a slot by chance; that is no rule to build on.
func (s *redisStore) oneSlot(claims []claim) error {
	if !s.slots {
		return nil
	}
	slot := func(key string) string {
		if t, tagged := tag(key); tagged {
			return t
		}
		return key
	}
	for _, c := range claims[1:] {
		if slot(c.key) != slot(claims[0].key) {
			return slotError(claims[0].key, c.key)
		}
	}
	return nil
}

func slotError(a, b string) error {
	return fmt.Errorf("%w: keys %q and %q may lie on different nodes of the cluster and cannot be decided together; "+
		"give both the same tag in braces, as in user:{7} and address:{7}", ErrInvalid, clip(a), clip(b))
}

// readAnswers reads six whole numbers for each of n calls.
func readAnswers(reply []int64, n int) ([]answer, error) {
	if len(reply) != 6*n {
		return nil, replyError(len(reply))
	}
	answers := make([]answer, n)
	for i := range answers {
		r := reply[6*i:]
		answers[i] = answer{verdict: verdict(r[0]), remaining: r[1], retry: r[2], reset: r[3], taken: r[4], at: r[5]}
	}
	return answers, nil
}

func replyError(numbers int) error {
	return fmt.Errorf("%w: the script replied with %d numbers; is something between this program and Redis?", ErrUnavailable, numbers)
}

// redisError tells a caller who gave up from a Redis that cannot be asked.
func redisError(what string, err error) error {
	if strings.HasPrefix(err.Error(), "CROSSSLOT") {
		return fmt.Errorf("%w: %s: the keys lie on different nodes of the cluster; give them the same tag in braces, "+
			"as in user:{7} and address:{7}: %w", ErrInvalid, what, err)
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("meter: %s: %w", what, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
}
