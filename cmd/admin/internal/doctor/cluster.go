package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

// examineCluster looks at every master. Without all of them there is no use in looking further.
func examineCluster(ctx context.Context, cluster *redis.ClusterClient) (findings []Finding, usable bool) {
	const mend = "see redis-cli --cluster check"
	masters, err := mastersOf(ctx, cluster)
	if err != nil {
		return []Finding{fail("cluster", "its masters cannot be listed: "+err.Error(), mend)}, false
	}
	for _, master := range masters {
		of := append(examineServer(queue.ServerInfo(ctx, master)), examineTrip(ctx, master)...)
		for i := range of {
			of[i].Nodes = []string{master.Options().Addr}
		}
		findings = append(findings, of...)
	}
	slots := examineSlots(ctx, masters)
	return append(merge(findings, len(masters)), slots), slots.Verdict == OK
}

// mastersOf lists the masters of a cluster, by address.
func mastersOf(ctx context.Context, cluster *redis.ClusterClient) ([]*redis.Client, error) {
	var mu sync.Mutex
	var masters []*redis.Client
	err := cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters = append(masters, node)
		return nil
	})
	slices.SortFunc(masters, func(a, b *redis.Client) int { return strings.Compare(a.Options().Addr, b.Options().Addr) })
	return masters, err
}

// merge makes one finding of those that are the same on several nodes, in the order of the first node, and names nodes only
// where not all of them agree.
func merge(findings []Finding, nodes int) []Finding {
	var merged []Finding
	for _, f := range findings {
		i := slices.IndexFunc(merged, func(m Finding) bool {
			return m.Check == f.Check && m.Verdict == f.Verdict && m.Detail == f.Detail
		})
		if i < 0 {
			merged = append(merged, f)
			continue
		}
		merged[i].Nodes = slices.Concat(merged[i].Nodes, f.Nodes)
	}
	for i := range merged {
		if len(merged[i].Nodes) == nodes {
			merged[i].Nodes = nil
		}
	}
	return merged
}

const clusterSlots = 16384

// examineSlots asks every master, since each has a view of its own.
func examineSlots(ctx context.Context, masters []*redis.Client) Finding {
	for _, master := range masters {
		addr := master.Options().Addr
		text, err := master.ClusterInfo(ctx).Result()
		if err != nil {
			return fail("cluster", addr+" does not tell its state: "+err.Error(), "see redis-cli --cluster check")
		}
		info := map[string]string{}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			info[name] = value
		}
		if info["cluster_state"] != "ok" || info["cluster_slots_ok"] != strconv.Itoa(clusterSlots) {
			return fail("cluster", fmt.Sprintf("%s sees it in state %s, %s of %d slots served", addr,
				info["cluster_state"], info["cluster_slots_ok"], clusterSlots),
				"see redis-cli --cluster check; bring the missing masters back, or --cluster fix")
		}
	}
	return ok("cluster", fmt.Sprintf("%d masters serve all %d slots", len(masters), clusterSlots))
}
