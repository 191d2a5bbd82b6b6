package redistest

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

const clusterSlots = 16384

// ClusterServers is a Redis Cluster of masters without replicas.
type ClusterServers struct {
	Nodes []*Server // in the order of their slots
}

// Cluster starts a Redis Cluster with the slots spread evenly over masters.
func Cluster(tb testing.TB, masters int) *ClusterServers {
	tb.Helper()
	ctx := tb.Context()
	c := &ClusterServers{}
	for i := range masters {
		node := Start(tb, "--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1")
		c.Nodes = append(c.Nodes, node)
		rdb := node.Client(tb)
		// Epochs differ from the start, so that no two nodes argue about them.
		check(tb, rdb.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(), "set epoch")
		first, next := i*clusterSlots/masters, (i+1)*clusterSlots/masters
		check(tb, rdb.ClusterAddSlotsRange(ctx, first, next-1).Err(), "add slots")
		for _, addr := range c.Addrs()[:i] {
			host, port, _ := net.SplitHostPort(addr)
			check(tb, rdb.ClusterMeet(ctx, host, port).Err(), "meet "+addr)
		}
	}
	for _, node := range c.Nodes {
		rdb := node.Client(tb)
		check(tb, await(ctx, func() error {
			info, err := rdb.ClusterInfo(ctx).Result()
			if err == nil && !strings.Contains(info, "cluster_state:ok") { // ok: it knows who has every slot
				err = errors.New(info)
			}
			return err
		}), "join cluster")
	}
	return c
}

// Addrs lists host:port of every node.
func (c *ClusterServers) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		addrs[i] = node.Addr
	}
	return addrs
}

// Client returns a client of its own, closed at the end of tb.
func (c *ClusterServers) Client(tb testing.TB) *redis.ClusterClient {
	tb.Helper()
	return closing(tb, redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()}))
}
