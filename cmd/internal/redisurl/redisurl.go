// Package redisurl reads where Redis is, in the forms that the commands take, and makes the client for it:
//
//	host:port                                           one server
//	redis://[user:password@]host[:port][/db]            the same; rediss:// with TLS
//	redis+cluster://[user:password@]host:port,host:port a Redis Cluster; rediss+cluster:// with TLS
//	redis+sentinel://[user:password@]host:port,host:port/master[/db]
//	                                                    sentinels that know a master; rediss+sentinel:// with TLS
//
// Parameters: ?cafile=FILE names the authorities to trust instead of the system's (PEM, TLS only);
// ?sentinel_user=U&sentinel_password=P sign on at the sentinels, for which user and password of the master do not count.
//
// A password never appears in an error or in [Target.String]; so errors do not repeat the text they complain about.
package redisurl

import (
	"crypto/tls"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// kind is which sort of client a Target needs.
type kind string

const (
	single   kind = "single"
	cluster  kind = "cluster"
	sentinel kind = "sentinel"
)

// Target is a Redis to connect to.
type Target struct {
	kind   kind
	addrs  []string // host:port
	master string   // what sentinels call it
	db     int

	user, password                 string
	sentinelUser, sentinelPassword string
	tls                            *tls.Config
}

// String names the target without credentials, for logs.
func (t *Target) String() string {
	scheme := "redis"
	if t.tls != nil {
		scheme = "rediss"
	}
	if t.kind != single {
		scheme += "+" + string(t.kind)
	}
	s := scheme + "://" + strings.Join(t.addrs, ",")
	if t.master != "" {
		s += "/" + t.master
	}
	if t.db != 0 {
		s += "/" + strconv.Itoa(t.db)
	}
	return s
}

// Timeouts of all clients. A call that is not answered in time has an unknown outcome, which go-redis' own retries would
// hide, so they are off, and callers repeat what is safe to repeat.
const (
	dialTimeout = 2 * time.Second
	ioTimeout   = 3 * time.Second
	noRetries   = -1
)

// Client makes a client of the target. It connects when first used. The name is what CLIENT LIST shows.
func (t *Target) Client(name string) redis.UniversalClient {
	o := &redis.UniversalOptions{
		Addrs: t.addrs, DB: t.db, ClientName: name, MasterName: t.master,
		Username: t.user, Password: t.password,
		SentinelUsername: t.sentinelUser, SentinelPassword: t.sentinelPassword,
		TLSConfig:   t.tls,
		DialTimeout: dialTimeout, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout,
		DialerRetries: 1, MaxRetries: noRetries, ContextTimeoutEnabled: true,
		// Announcements of a managed service's maintenance: a call per connection that plain Redis refuses.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	switch t.kind {
	case cluster:
		return redis.NewClusterClient(o.Cluster())
	case sentinel:
		return redis.NewFailoverClient(o.Failover())
	default:
		return redis.NewClient(o.Simple())
	}
}
