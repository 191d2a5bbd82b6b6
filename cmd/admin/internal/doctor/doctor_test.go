package doctor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/cmd/admin/internal/doctor"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// lines are findings as "check verdict detail", to look for words in.
func lines(findings []doctor.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s %s %s\n", f.Check, f.Verdict, f.Text())
	}
	return b.String()
}

func TestServer(t *testing.T) {
	t.Parallel()
	sound := map[string]string{
		"redis_version": "7.0.15", "role": "master", "maxmemory_policy": "noeviction", "used_memory": "1048576",
		"maxmemory": "10485760", "aof_enabled": "1", "aof_last_write_status": "ok", "rdb_last_bgsave_status": "ok",
	}
	if got := lines(doctor.ExamineServer(sound)); strings.Contains(got, "warn") || strings.Contains(got, "FAIL") {
		t.Errorf("a sound server is not:\n%s", got)
	}
	for _, test := range []struct{ field, value, want string }{
		{"redis_version", "6.2.14", "version FAIL Redis 6.2.14 is too old"},
		{"redis_version", "", "version warn the server does not tell its version"},
		{"valkey_version", "8.1.0", "version ok Valkey 8.1.0"},
		{"role", "slave", "role FAIL it is a replica"},
		{"maxmemory_policy", "volatile-ttl", "eviction FAIL maxmemory-policy is volatile-ttl"},
		{"maxmemory_policy", "", "eviction warn"},
		{"used_memory", "8000000", "memory warn 7.6 MiB used of a maxmemory of 10.0 MiB: from 80 % on (--store-share) jobs are refused; "},
		{"used_memory", "8500000", "memory FAIL 8.1 MiB used of a maxmemory of 10.0 MiB: from 80 % on (--store-share) jobs are refused as store_full"},
		{"used_memory", "10485760", "memory FAIL"},
		{"used_memory", "", "memory warn"},
		{"maxmemory", "0", "memory ok 1.0 MiB used; no maxmemory is set"},
		{"aof_enabled", "0", "persistence warn appendonly is off"},
		{"aof_enabled", "", "persistence warn the server does not tell"},
		{"aof_last_write_status", "err", "persistence FAIL"},
		{"rdb_last_bgsave_status", "err", "persistence warn the last snapshot failed"},
	} {
		info := map[string]string{test.field: test.value}
		for field, value := range sound {
			if field != test.field {
				info[field] = value
			}
		}
		if got := lines(doctor.ExamineServer(info)); !strings.Contains(got, test.want) {
			t.Errorf("%s %q: want %q in:\n%s", test.field, test.value, test.want, got)
		}
	}
}

func TestLatency(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		trip time.Duration
		want string
	}{
		{time.Millisecond, "latency ok 100 round trips: p50 1ms, p99 1ms"},
		{7500 * time.Microsecond, "latency ok"},
		{7510 * time.Microsecond, "latency warn"},
		{40 * time.Millisecond, "to mend it: give workers --freshness 90ms or more"},
	} {
		trips := make([]time.Duration, 100)
		for i := range trips {
			trips[i] = test.trip
		}
		trips[7] = time.Hour // one in a hundred does not count
		if got := lines([]doctor.Finding{doctor.CheckLatency(trips)}); !strings.Contains(got, test.want) {
			t.Errorf("%v: want %q in %s", test.trip, test.want, got)
		}
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[time.Duration]string{
		400 * time.Microsecond:   "clock ok Redis's clock and this machine's agree",
		-2 * time.Millisecond:    "clock ok Redis's clock is 2ms behind",
		time.Second:              "clock ok Redis's clock is 1s ahead",
		-1001 * time.Millisecond: "clock warn Redis's clock is 1.001s behind",
	} {
		if got := lines([]doctor.Finding{doctor.CheckClock(ahead)}); !strings.Contains(got, want) {
			t.Errorf("%v: want %q in %s", ahead, want, got)
		}
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	of := func(verdict doctor.Verdict, check string, nodes ...string) doctor.Finding {
		return doctor.Finding{Check: check, Verdict: verdict, Nodes: nodes}
	}
	got := doctor.Merge([]doctor.Finding{
		of(doctor.OK, "version", "a"), of(doctor.OK, "eviction", "a"),
		of(doctor.OK, "version", "b"), of(doctor.Fail, "eviction", "b"),
		of(doctor.OK, "version", "c"), of(doctor.OK, "eviction", "c"),
	}, 3)
	want := []doctor.Finding{of(doctor.OK, "version"), of(doctor.OK, "eviction", "a", "c"), of(doctor.Fail, "eviction", "b")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3)
	ctx := t.Context()

	// A node by itself is the wrong address, whatever else.
	plain := lines(doctor.Examine(ctx, cluster.Nodes[0].Client(t), "x", queue.Options{}))
	if !strings.Contains(plain, "cluster FAIL this address is one node of a Redis Cluster; to mend it: connect with redis+cluster://") {
		t.Errorf("a node behind a plain address:\n%s", plain)
	}
	rdb := cluster.Client(t)
	examine := func(words ...string) {
		t.Helper()
		got := lines(doctor.Examine(ctx, rdb, "x", queue.Options{}))
		for _, want := range words {
			if !strings.Contains(got, want) {
				t.Errorf("want %q in:\n%s", want, got)
			}
		}
	}
	examine("cluster ok 3 masters serve all 16384 slots", "eviction ok maxmemory-policy", "schema ok nothing is stored")
	client, err := queue.Open(ctx, rdb, queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Classes().Put(ctx, queue.NewClass("a", 1, queue.Rate{Limit: 1, Period: time.Second})); err != nil {
		t.Fatal(err)
	}
	examine("schema ok prefix spout, version 2, 4 shards", "classes ok 1", "sick ok")

	second := cluster.Nodes[1]
	if err := second.Client(t).ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	examine("eviction FAIL "+second.Addr+": maxmemory-policy is allkeys-lru", "sick ok")
}
