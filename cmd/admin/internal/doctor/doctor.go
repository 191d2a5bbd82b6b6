// Package doctor examines a Redis and the installation in it, and says what is wrong and how to mend it. It changes
// nothing, and it needs nothing to be in order: where [queue.Open] would only refuse, it goes on.
package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

// Verdict is how a check ended.
type Verdict string

// The verdicts.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn" // works, and may go wrong
	Fail Verdict = "FAIL" // does not work, or loses jobs
)

// Finding is the result of one check.
type Finding struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	// Detail is what was found, Mend what to do about it.
	Detail string `json:"detail"`
	Mend   string `json:"mend,omitempty"`
	// Nodes of a cluster where it was found, when not on all of them.
	Nodes []string `json:"nodes,omitempty"`
}

// Text is the finding in one line.
func (f Finding) Text() string {
	text := f.Detail
	if len(f.Nodes) > 0 {
		text = strings.Join(f.Nodes, ", ") + ": " + text
	}
	if f.Mend != "" {
		text += "; to mend it: " + f.Mend
	}
	return text
}

func ok(check, detail string) Finding { return Finding{Check: check, Verdict: OK, Detail: detail} }

func warn(check, detail, mend string) Finding {
	return Finding{Check: check, Verdict: Warn, Detail: detail, Mend: mend}
}

func fail(check, detail, mend string) Finding {
	return Finding{Check: check, Verdict: Fail, Detail: detail, Mend: mend}
}

// Failed tells whether something does not work.
func Failed(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Verdict == Fail })
}

// Examine makes all checks that can be made. The address is for people.
func Examine(ctx context.Context, rdb redis.UniversalClient, address string, o queue.Options) []Finding {
	if err := rdb.Ping(ctx).Err(); err != nil {
		return []Finding{unreachable(address, err)}
	}
	findings := []Finding{ok("redis", "answers at "+address)}
	var servers []Finding
	usable := true
	if cluster, clustered := rdb.(*redis.ClusterClient); clustered {
		servers, usable = examineCluster(ctx, cluster)
	} else {
		info := queue.ServerInfo(ctx, rdb)
		servers = append(examineServer(info), examineTrip(ctx, rdb)...)
		if info["cluster_enabled"] == "1" {
			usable = false
			servers = append(servers, fail("cluster", "this address is one node of a Redis Cluster",
				"connect with redis+cluster://host:port,host:port"))
		}
	}
	findings = append(findings, servers...)
	if !usable {
		return findings
	}
	return append(findings, examineInstallation(ctx, rdb, o)...)
}

// unreachable says why Redis does not answer.
func unreachable(address string, err error) Finding {
	mend := "start it, or say where it is with --redis or SPOUT_REDIS"
	switch text := err.Error(); {
	case redis.IsAuthError(err), redis.IsPermissionError(err):
		mend = "give user and password in SPOUT_REDIS, and the user the rights"
	case strings.Contains(text, "cluster support disabled"):
		mend = "it is no cluster: write redis:// instead of redis+cluster://"
	case redis.IsLoadingError(err):
		mend = "wait until it has loaded its data"
	}
	return fail("redis", "does not serve at "+address+": "+err.Error(), mend)
}
