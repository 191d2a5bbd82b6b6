package queue

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var lua embed.FS

// scripts are the programs that run inside Redis. Each is the clock, the prelude, what is shared of buckets, and its own
// file; those that end departures share more. A script is defined anew in each call, so settle begins with what most of
// its calls need and nothing else.
type scripts struct {
	admit, depart, start, settle, reclaim, bucket, class, job, audit, schema *redis.Script

	collect, states, levels, record *redis.Script // of those who look: loaded by the first call
}

func newScripts(clock string) scripts {
	script := func(files ...string) *redis.Script {
		text := strings.Builder{}
		_, _ = text.WriteString(clock)
		for _, name := range files {
			_, _ = text.WriteString(source(name))
		}
		return redis.NewScript(text.String())
	}
	plain := func(name string) *redis.Script { return script("prelude", "buckets", "seldom", name) }
	with := func(name string) *redis.Script { return script("prelude", "buckets", "seldom", "returns", name) }
	return scripts{
		admit: plain("admit"), bucket: plain("bucket"),
		settle: script("prelude", "done", "buckets", "seldom", "returns", "settle"),
		depart: with("depart"), start: with("start"), reclaim: with("reclaim"),
		class: with("class"), job: with("job"), audit: with("audit"),
		schema:  redis.NewScript(source("schema")),
		collect: script("prelude", "collect"), states: script("prelude", "states"), levels: script("levels"), record: script("prelude", "record"),
	}
}

func source(name string) string {
	b, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(fmt.Sprintf("queue: embedded script %s: %v", name, err)) // a broken build, found by any test
	}
	return string(b)
}

// load puts the scripts into Redis, so that the first calls need no second round trip.
func (s scripts) load(ctx context.Context, rdb redis.UniversalClient) error {
	for _, script := range []*redis.Script{s.admit, s.depart, s.start, s.settle, s.reclaim, s.bucket, s.class, s.job, s.audit} {
		if err := script.Load(ctx, rdb).Err(); err != nil {
			return redisError("load scripts", err)
		}
	}
	return nil
}

// noScript tells whether Redis has lost a script, by SCRIPT FLUSH or a restart.
func noScript(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT")
}

// reply reads what a script returned: whole numbers and strings, either of which may carry a number.
type reply []any

func (r reply) text(i int) string {
	if i >= len(r) {
		return ""
	}
	switch v := r[i].(type) {
	case string:
		return v
	case int64:
		return fmt.Sprint(v)
	}
	return ""
}

func (r reply) int(i int) int64 {
	if i < len(r) {
		if v, ok := r[i].(int64); ok {
			return v
		}
	}
	return parseInt(r.text(i))
}

func (r reply) list(i int) []any {
	if i < len(r) {
		if v, ok := r[i].([]any); ok {
			return v
		}
	}
	return nil
}
