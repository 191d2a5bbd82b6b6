package scheduler

import (
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// serverPoolSize is enough for one heartbeat at a time.
const serverPoolSize = 4

// cloneForServer returns a client that reaches the same Redis as c, with the
// same credentials, and gives up sooner: asynq starts and finishes tasks
// through the goroutine that also sends its heartbeats.
//
// Options of a client are initialised already, and a second initialisation
// takes a "disabled" (0) for "default". That matters for what is set here only;
// elsewhere a default does no harm to a few heartbeats.
func cloneForServer(c redis.UniversalClient) (redis.UniversalClient, error) {
	switch c := c.(type) {
	case *redis.Client: // a sentinel client too: its dialer finds the master
		return redis.NewClient(serverOptions(*c.Options())), nil
	case *redis.ClusterClient:
		return redis.NewClusterClient(serverClusterOptions(*c.Options())), nil
	default:
		return nil, fmt.Errorf("scheduler: asynq's server needs a *redis.Client or a *redis.ClusterClient, not a %T", c)
	}
}

func serverOptions(o redis.Options) *redis.Options {
	o.PoolSize, o.MinIdleConns = serverPoolSize, 0
	o.DialTimeout, o.DialerRetries = redisPatience, 1
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = redisPatience, redisPatience, redisPatience
	o.ContextTimeoutEnabled = true // the hook sets one
	o.MaxRetries = 1
	// Bound to the client they come from.
	o.PushNotificationProcessor = nil
	o.ClientSideCache, o.ClientSideCacheConfig = nil, nil
	o.MaintNotificationsConfig = noMaintNotifications()
	return &o
}

func serverClusterOptions(o redis.ClusterOptions) *redis.ClusterOptions {
	o.PoolSize, o.MinIdleConns = serverPoolSize, 0
	o.DialTimeout, o.DialerRetries = redisPatience, 1
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = redisPatience, redisPatience, redisPatience
	o.ContextTimeoutEnabled = true // the hook sets one
	o.MaxRedirects = 2             // counts retries, too
	o.PushNotificationProcessor = nil
	o.MaintNotificationsConfig = noMaintNotifications()
	return &o
}

// noMaintNotifications keeps go-redis from one more command on each connection,
// and NewClient from resolving the host name.
func noMaintNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
