package doctor

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/spout-queue/spout/queue"
)

// examineServer judges a server by its INFO.
func examineServer(info map[string]string) []Finding {
	if info == nil {
		return []Finding{fail("version", "INFO is refused, so nobody can tell whether the server is fit",
			"ACL SETUSER with +info for the user in SPOUT_REDIS")}
	}
	return []Finding{checkVersion(info), checkRole(info), checkEviction(info), checkMemory(info), checkPersistence(info)}
}

const oldestMajor = 7

func checkVersion(info map[string]string) Finding {
	version := info["redis_version"]
	major, err := strconv.Atoi(strings.Split(version, ".")[0])
	switch {
	case err != nil:
		return warn("version", "the server does not tell its version", "take Redis 7.0 or later, or Valkey")
	case major < oldestMajor:
		return fail("version", "Redis "+version+" is too old", "upgrade it to 7.0 or later, or to Valkey")
	case info["valkey_version"] != "":
		return ok("version", "Valkey "+info["valkey_version"])
	}
	return ok("version", "Redis "+version)
}

func checkRole(info map[string]string) Finding {
	if info["role"] == "slave" {
		return fail("role", "it is a replica of "+info["master_host"]+":"+info["master_port"]+", so it takes no jobs",
			"connect to its master, or through sentinels with redis+sentinel://host:port/master")
	}
	return ok("role", "a master with "+cmp.Or(info["connected_slaves"], "0")+" replicas")
}

func checkEviction(info map[string]string) Finding {
	const mend = "CONFIG SET maxmemory-policy noeviction, and the same in its configuration file"
	switch policy := info["maxmemory_policy"]; policy {
	case "noeviction":
		return ok("eviction", "maxmemory-policy is noeviction")
	case "":
		return warn("eviction", "the server does not tell its maxmemory-policy", "see that it is noeviction")
	default:
		return fail("eviction", "maxmemory-policy is "+policy+", so Redis may drop jobs", mend)
	}
}

// Parts of maxmemory, or of a limit of NATS, from which on something is to be done. From full on jobs are refused: see
// [queue.DefaultStoreShare].
const (
	filling    = 0.75
	nearlyFull = queue.DefaultStoreShare
)

func checkMemory(info map[string]string) Finding {
	used, err := strconv.ParseFloat(info["used_memory"], 64)
	if err != nil {
		return warn("memory", "the server does not tell how much it uses", "see that it has enough")
	}
	most, _ := strconv.ParseFloat(info["maxmemory"], 64) // what is not told is not set
	if most <= 0 {
		return ok("memory", mebibytes(used)+" used; no maxmemory is set, so the machine's memory is the bound")
	}
	detail := fmt.Sprintf("%s used of a maxmemory of %s", mebibytes(used), mebibytes(most))
	switch {
	case used > nearlyFull*most:
		return fail("memory", fmt.Sprintf("%s: from %.0f %% on (--store-share) jobs are refused as store_full", detail, nearlyFull*100),
			"raise maxmemory, or let workers drain")
	case used >= filling*most:
		return warn("memory", fmt.Sprintf("%s: from %.0f %% on (--store-share) jobs are refused", detail, nearlyFull*100),
			"raise it, or lower the capacity of classes")
	}
	return ok("memory", detail)
}

func mebibytes(bytes float64) string { return fmt.Sprintf("%.1f MiB", bytes/(1<<20)) }

func checkPersistence(info map[string]string) Finding {
	const check = "persistence"
	switch {
	case info["aof_enabled"] == "":
		return warn(check, "the server does not tell whether it keeps its data", "see that appendonly is on")
	case info["aof_enabled"] == "1" && info["aof_last_write_status"] == "err":
		return fail(check, "the append-only file cannot be written, so Redis refuses jobs", "see its log and its disk")
	case info["rdb_last_bgsave_status"] == "err":
		return warn(check, "the last snapshot failed, for which Redis refuses jobs as a rule", "see its log and its disk")
	case info["aof_enabled"] == "0":
		return warn(check, "appendonly is off: a crash of Redis loses the jobs since its last snapshot",
			"CONFIG SET appendonly yes, and the same in its configuration file")
	}
	return ok(check, "appendonly is on")
}
