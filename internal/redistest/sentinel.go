package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
)

// SentinelServers is a master and its replica, watched by one sentinel that
// fails over half a second after it lost the master.
type SentinelServers struct {
	Name                      string // what the sentinel calls the master
	Master, Replica, Sentinel *Server
}

// Sentinel starts them and returns when a failover is possible.
func Sentinel(tb testing.TB) *SentinelServers {
	tb.Helper()
	ctx := tb.Context()
	s := &SentinelServers{Name: "spout", Master: Start(tb, "--repl-diskless-sync-delay", "0")}
	host, port, _ := net.SplitHostPort(s.Master.Addr)
	s.Replica = Start(tb, "--replicaof", host+" "+port)
	master := s.Master.Client(tb)
	check(tb, await(ctx, func() error {
		n, err := master.Wait(ctx, 1, 0).Result()
		if err == nil && n != 1 {
			err = fmt.Errorf("%d replicas follow", n)
		}
		return err
	}), "replica")

	dir := tempDir(tb)
	conf := filepath.Join(dir, "sentinel.conf") // a sentinel keeps its state in it
	check(tb, os.WriteFile(conf, fmt.Appendf(nil, `sentinel monitor %[1]s %[2]s %[3]s 1
sentinel down-after-milliseconds %[1]s 500
sentinel failover-timeout %[1]s 2000
`, s.Name, host, port), 0o600), "write sentinel.conf")
	s.Sentinel = start(tb, dir, nil, func(port string) []string {
		return []string{conf, "--sentinel", "--port", port}
	})
	sentinel := closing(tb, redis.NewSentinelClient(&redis.Options{Addr: s.Sentinel.Addr}))
	check(tb, await(ctx, func() error {
		replicas, err := sentinel.Replicas(ctx, s.Name).Result()
		if err == nil && (len(replicas) != 1 || replicas[0]["flags"] != "slave") {
			err = fmt.Errorf("replicas it knows: %v", replicas)
		}
		return err
	}), "sentinel")
	return s
}

// Addrs lists host:port of the sentinel, as clients want it.
func (s *SentinelServers) Addrs() []string { return []string{s.Sentinel.Addr} }

// Client returns a client of its own that follows the master, closed at the
// end of tb.
func (s *SentinelServers) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	return closing(tb, redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.Name, SentinelAddrs: s.Addrs()}))
}
