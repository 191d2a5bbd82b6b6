package redisurl_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/cmd/internal/redisurl"
	"github.com/spout-queue/spout/internal/redistest"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ in, want string }{
		{"localhost:6379", "redis://localhost:6379"},
		{"localhost", "redis://localhost:6379"},
		{"10.0.0.7:1", "redis://10.0.0.7:1"},
		{"[::1]:6380", "redis://[::1]:6380"},
		{"redis://[::1]", "redis://[::1]:6379"},
		{"redis://h", "redis://h:6379"},
		{"redis://h:7/", "redis://h:7"},
		{"redis://h:7/3", "redis://h:7/3"},
		{"rediss://h:7/3", "rediss://h:7/3"},
		{"redis://user:secret@h:7", "redis://h:7"},
		{"redis://:se%2Fcret@h:7/1", "redis://h:7/1"},
		{"redis://user:p@ss:w#rd@h:7", "redis://h:7"},
		{"redis+cluster://a:1,b:2,c", "redis+cluster://a:1,b:2,c:6379"},
		{"rediss+cluster://u:p@a:1,b:2/0", "rediss+cluster://a:1,b:2"},
		{"redis+sentinel://a:1,b:2/main", "redis+sentinel://a:1,b:2/main"},
		{"redis+sentinel://u:p@a:1/main/5?sentinel_user=x&sentinel_password=y", "redis+sentinel://a:1/main/5"},
	} {
		target, err := redisurl.Parse(test.in)
		if err != nil {
			t.Errorf("%s: %v", test.in, err)
			continue
		}
		if got := target.String(); got != test.want {
			t.Errorf("%s: got %s, want %s", test.in, got, test.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	noCert := filepath.Join(t.TempDir(), "no.pem")
	if err := os.WriteFile(noCert, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ in, want string }{
		{"", "the address is empty"},
		{"http://h:1", "the scheme is none of"},
		{"redis://", "the host is missing"},
		{"redis://h:", "the port is not a number"},
		{"redis://h:secret", "the port is not a number"},
		{"redis://h:0", "the port is not a number"},
		{"redis://h:65536", "the port is not a number"},
		{"redis://a b", "characters that no host has"},
		{"redis://::1:secret", "it is not host:port"},
		{"redis://h/secret", "not a number"},
		{"redis://h/-1", "not a number"},
		{"redis://a:1,b:2", "redis+cluster://"},
		{"redis+cluster://a:1,,b:2", "address 2 of 3: the host is missing"},
		{"redis+cluster://a:1/2", "no database but 0"},
		{"redis+sentinel://a:1", "the master's name is missing"},
		{"redis+sentinel://a:1/main/secret", "not a number"},
		{"redis://user:sec/ret@h:1", "%2F"},
		{"redis://user:sec?ret@h:1", "%3F"},
		{"redis://user:p@sec/ret@h:1", "%2F"},
		{"redis://user:secret%zz@h:1", "%25"},
		{"redis://h?timeout=secret", "unknown parameter"},
		{"redis://h?cafile=a&cafile=b", "given twice"},
		{"redis://h?cafile=a", "write rediss"},
		{"redis://h?sentinel_password=secret", "unknown parameter"},
		{"redis://h?%zz=secret", "malformed"},
		{"rediss://h?cafile=/no/such/file", "read cafile"},
		{"rediss://h?cafile=" + noCert, "no certificate"},
	} {
		_, err := redisurl.Parse(test.in)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q in it", test.in, err, test.want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error repeats what may be a password: %v", test.in, err)
		}
	}
}

func TestClient(t *testing.T) {
	t.Parallel()
	plain := redistest.Start(t)
	locked := redistest.Start(t)
	if err := locked.Client(t).ConfigSet(t.Context(), "requirepass", "p@ss/word").Err(); err != nil {
		t.Fatal(err)
	}
	secure := redistest.TLS(t)
	cluster := redistest.Cluster(t, 3)
	watched := redistest.Sentinel(t)
	for name, url := range map[string]string{
		"bare":       plain.Addr,
		"one server": "redis://" + plain.Addr + "/2",
		"password":   "redis://:p%40ss%2Fword@" + locked.Addr,
		"tls":        secure.URL + "?cafile=" + secure.CAFile,
		"cluster":    "redis+cluster://" + strings.Join(cluster.Addrs(), ","),
		"sentinel":   "redis+sentinel://" + strings.Join(watched.Addrs(), ",") + "/" + watched.Name,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := client(t, url)
			if err := rdb.Set(t.Context(), "key", name, 0).Err(); err != nil {
				t.Fatal(err)
			}
			if got := rdb.Get(t.Context(), "key").Val(); got != name {
				t.Errorf("got %q", got)
			}
		})
	}
	t.Run("wrong password", func(t *testing.T) {
		t.Parallel()
		err := client(t, "redis://:other@"+locked.Addr).Ping(t.Context()).Err()
		if !redis.IsAuthError(err) || strings.Contains(err.Error(), "other") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("unknown authority", func(t *testing.T) {
		t.Parallel()
		err := client(t, secure.URL).Ping(t.Context()).Err()
		if err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("got %v", err)
		}
	})
}

func client(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	target, err := redisurl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	rdb := target.Client("spout-test")
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
