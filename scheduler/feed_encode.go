package scheduler

import (
	"cmp"
	"context"
	"errors"
	"net"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

var (
	errNeverDialled = errors.New("scheduler: the encoder has no Redis")
	errNotEncoded   = errors.New("scheduler: asynq's client enqueued nothing")
)

// encoder turns tasks into the messages that asynq's server reads, without
// knowing their format: an asynq.Client enqueues a task on a Redis client that
// is never dialled, whose hook takes the message out of the enqueue script's
// arguments. It is safe for concurrent use.
type encoder struct {
	redis   *redis.Client
	client  *asynq.Client
	options []asynq.Option
}

func newEncoder() *encoder {
	rdb := redis.NewClient(&redis.Options{MaintNotificationsConfig: noMaintNotifications()})
	rdb.AddHook(encoderHook{})
	return &encoder{
		redis:  rdb,
		client: asynq.NewClientFromRedisClient(rdb),
		options: []asynq.Option{
			asynq.Queue(feedQueue),
			asynq.MaxRetry(0),
			asynq.Timeout(never), // without one, asynq sets 30 minutes
		},
	}
}

// messageKey is the context key of the *[]byte that gets the message.
type messageKey struct{}

// encode returns asynq's message for t. It fails for what asynq refuses: a
// blank id or type, and text that is not UTF-8.
func (e *encoder) encode(ctx context.Context, t task) ([]byte, error) {
	var message []byte
	ctx = context.WithValue(ctx, messageKey{}, &message)
	options := make([]asynq.Option, 0, len(e.options)+1)
	options = append(append(options, e.options...), asynq.TaskID(t.ID))
	_, err := e.client.EnqueueContext(ctx, asynq.NewTaskWithHeaders(t.Type, t.Payload, t.Headers), options...)
	if err != nil {
		return nil, err
	}
	if message == nil {
		return nil, errNotEncoded
	}
	return message, nil
}

func (e *encoder) close() error { return e.redis.Close() }

// encoderHook answers the two commands of an enqueuing client.
type encoderHook struct{}

// ProcessHook implements redis.Hook.
func (encoderHook) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch call := queueCall(cmd); call {
		case "sadd asynq:queues": // once per client
			return answer(cmd, call, int64(1))
		case "script t pending": // enqueue: two keys, then the message
			target, _ := ctx.Value(messageKey{}).(*[]byte)
			args := cmd.Args()
			if target == nil || len(args) < 6 {
				return refuse(cmd, call)
			}
			*target, _ = args[5].([]byte)
			return answer(cmd, call, int64(1))
		default:
			return refuse(cmd, cmp.Or(call, cmd.Name()))
		}
	}
}

// ProcessPipelineHook implements redis.Hook.
func (encoderHook) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return errNeverDialled }
}

// DialHook implements redis.Hook.
func (encoderHook) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errNeverDialled }
}
