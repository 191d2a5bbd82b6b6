package scheduler

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// asynq's key names: asynq:{<queue>}:… belongs to a queue, asynq:servers…
	// and asynq:workers… are the heartbeats.
	asynqPrefix   = "asynq:"
	queuePrefix   = asynqPrefix + "{" + feedQueue + "}:"
	taskPrefix    = queuePrefix + "t:"
	serversPrefix = asynqPrefix + "servers"
	workersPrefix = asynqPrefix + "workers"

	// redisPatience bounds what asynq itself waits for Redis. While its
	// heartbeat waits, it neither starts nor finishes a task.
	redisPatience = time.Second
)

// feedHook answers what the feed's asynq server asks of its queue and lets
// everything else through: heartbeats, the subscription to cancellations (not
// a command to a hook), pings, and what go-redis says to a new connection.
//
// A call is known by its name and keys (see queueCall). A call that is not in
// the table, because a new asynq brought it, is an error that names it.
type feedHook struct{ feed *feed }

// ProcessHook implements redis.Hook.
func (h feedHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch call := queueCall(cmd); call {
		case "": // no business of a queue
			limited, cancel := context.WithTimeout(ctx, redisPatience)
			defer cancel()
			return next(limited, cmd)

		case "script pending paused active lease": // dequeue
			return h.dequeue(cmd)

		case "script active lease t processed:day processed", // done
			"script active lease completed t processed:day processed",                    // mark as complete
			"script active lease pending t",                                              // requeue
			"script t active lease retry processed:day failed:day processed failed",      // retry
			"script t active lease archived processed:day failed:day processed failed t", // archive
			"script aggregation_sets":                                                    // recoverer: stale sets
			return answer(cmd, call, "OK") // settle has the word

		case "script lease": // recoverer: expired leases
			return answer(cmd, call, []any{})

		case "script scheduled pending", "script retry pending", // forwarder
			"script completed": // janitor
			return answer(cmd, call, int64(0))

		case "zadd lease": // heartbeat: extend the leases
			return answer(cmd, call, int64(0))

		case "hset t": // write a result
			return h.result(cmd, call)

		default:
			return refuse(cmd, call)
		}
	}
}

// ProcessPipelineHook implements redis.Hook. asynq's server sends no pipelines;
// go-redis does, to set up a connection.
func (feedHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if call := queueCall(cmd); call != "" {
				return refuse(cmd, call)
			}
		}
		ctx, cancel := context.WithTimeout(ctx, redisPatience)
		defer cancel()
		return next(ctx, cmds)
	}
}

// DialHook implements redis.Hook. It bounds dialers that know their own client's
// timeout only: the one that go-redis puts into Options is such a one.
func (feedHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, redisPatience)
		defer cancel()
		return next(ctx, network, addr)
	}
}

// dequeue answers with the next task, or with nil after dequeueWait or when the
// feed closes.
func (h feedHook) dequeue(cmd redis.Cmder) error {
	f := h.feed
	if f.closed() {
		return nothing(cmd)
	}
	select { // spares the timer when there is work
	case t := <-f.tasks:
		return answer(cmd, "dequeue", t.message)
	default:
	}
	wait := time.NewTimer(dequeueWait)
	defer wait.Stop()
	select {
	case t := <-f.tasks:
		return answer(cmd, "dequeue", t.message)
	case <-f.closing:
	case <-wait.C:
	}
	return nothing(cmd)
}

// result passes HSET asynq:{spout}:t:<id> result <data> on.
func (h feedHook) result(cmd redis.Cmder, call string) error {
	args := cmd.Args()
	if len(args) != 4 || args[2] != "result" {
		return refuse(cmd, call)
	}
	key, _ := args[1].(string)
	data, ok := args[3].([]byte)
	if !ok {
		return refuse(cmd, call)
	}
	// The slice is the handler's to use again.
	h.feed.onResult(strings.TrimPrefix(key, taskPrefix), bytes.Clone(data))
	return answer(cmd, call, int64(1))
}

// queueCall names what cmd asks of a queue: its name, or "script" for EVAL and
// EVALSHA, and its keys without what differs from call to call, such as
// "script active lease pending t". It is empty for anything else.
func queueCall(cmd redis.Cmder) string {
	name, keys := cmd.Name(), cmd.Args()
	if name == "eval" || name == "evalsha" {
		name, keys = "script", scriptKeys(keys)
		if !slices.ContainsFunc(keys, isQueueKey) {
			return ""
		}
	} else {
		// Where the keys are differs from command to command, but asynq's
		// commands name theirs first, and values that look like one come later.
		first := slices.IndexFunc(keys, isAsynqKey)
		if first < 0 || !isQueueKey(keys[first]) {
			return ""
		}
		keys = keys[first : first+1]
	}
	var call strings.Builder
	call.Grow(96)
	call.WriteString(name)
	for _, key := range keys {
		call.WriteByte(' ')
		call.WriteString(keyShape(key))
	}
	return call.String()
}

// scriptKeys returns the KEYS of EVAL or EVALSHA: script, how many, key, …
func scriptKeys(args []any) []any {
	if len(args) < 3 {
		return nil
	}
	n, _ := args[2].(int) // always an int in go-redis
	return args[3:min(3+n, len(args))]
}

func isAsynqKey(key any) bool {
	s, ok := key.(string)
	return ok && strings.HasPrefix(s, asynqPrefix)
}

// isQueueKey is generous: a key of asynq's that is not known to be a heartbeat
// must not reach Redis unseen.
func isQueueKey(key any) bool {
	s, _ := key.(string)
	return isAsynqKey(key) && !strings.HasPrefix(s, serversPrefix) && !strings.HasPrefix(s, workersPrefix)
}

// keyShape strips the queue from a key, and the task or the day.
func keyShape(key any) string {
	s, _ := key.(string)
	shape, ours := strings.CutPrefix(s, queuePrefix)
	switch {
	case !ours:
		return s
	case strings.HasPrefix(shape, "t:"):
		return "t"
	case strings.HasPrefix(shape, "processed:"):
		return "processed:day"
	case strings.HasPrefix(shape, "failed:"):
		return "failed:day"
	default:
		return shape
	}
}

// answer sets the reply of cmd.
func answer(cmd redis.Cmder, call string, value any) error {
	switch cmd := cmd.(type) {
	case *redis.Cmd:
		cmd.SetVal(value)
		return nil
	case *redis.IntCmd:
		if n, ok := value.(int64); ok {
			cmd.SetVal(n)
			return nil
		}
	}
	return refuse(cmd, call)
}

// nothing sets the nil reply.
func nothing(cmd redis.Cmder) error {
	cmd.SetErr(redis.Nil)
	return redis.Nil
}

// refuse fails a call that the feed does not know how to answer.
func refuse(cmd redis.Cmder, call string) error {
	err := fmt.Errorf("scheduler: the feed does not know asynq's call %q", call)
	cmd.SetErr(err)
	return err
}
