package redistest

import (
	"context"
	"net"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Mini starts a miniredis whose keys expire as its clock advances, like those
// of Redis.
func Mini(tb testing.TB) *miniredis.Miniredis {
	tb.Helper()
	m := miniredis.RunT(tb)
	m.ClockTTL(true)
	return m
}

// MiniClient returns a client of a new [Mini].
func MiniClient(tb testing.TB) *redis.Client {
	tb.Helper()
	return closing(tb, redis.NewClient(&redis.Options{Addr: Mini(tb).Addr()}))
}

// MiniDial is [MiniClient] without sockets, for a testing/synctest bubble: the
// server runs inside it, and TIME and expiry follow the clock of the bubble.
func MiniDial(tb testing.TB) *redis.Client {
	tb.Helper()
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	tb.Cleanup(m.Close)
	return closing(tb, redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
		// They resolve host names, outside of the bubble.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}))
}

// Each runs test on a real server ("redis") and on miniredis ("miniredis").
func Each(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) { test(t, Start(t).Client(t)) })
	t.Run("miniredis", func(t *testing.T) { test(t, MiniClient(t)) })
}
