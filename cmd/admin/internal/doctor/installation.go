package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

// examineInstallation looks at what is stored under the prefix. It makes no installation where there is none.
func examineInstallation(ctx context.Context, rdb redis.UniversalClient, o queue.Options) []Finding {
	prefix := cmp.Or(o.Prefix, queue.DefaultPrefix)
	findings := []Finding{checkScripts(ctx, rdb, prefix)}
	meta, err := rdb.HGetAll(ctx, prefix+":meta").Result()
	switch {
	case err != nil:
		return append(findings, fail("schema", "it cannot be read: "+err.Error(), "see that the user may read "+prefix+":*"))
	case len(meta) == 0:
		return append(findings, ok("schema", "nothing is stored under prefix "+prefix+" yet; the first command that needs it begins"))
	}
	client, err := queue.Open(ctx, rdb, o)
	if err != nil {
		shards, _ := strconv.Atoi(meta["shards"])
		return append(findings, refusal(err), checkSick(ctx, rdb, prefix, shards))
	}
	return append(findings,
		ok("schema", fmt.Sprintf("prefix %s, version %s, %d shards", prefix, meta["schema"], client.Shards())),
		checkClasses(ctx, client),
		checkSick(ctx, rdb, prefix, client.Shards()))
}

// refusal says why the installation does not open.
func refusal(err error) Finding {
	switch {
	case errors.Is(err, queue.ErrSchema):
		what, mend, _ := strings.Cut(strings.TrimPrefix(err.Error(), queue.ErrSchema.Error()+": "), "; ")
		return fail("schema", what, mend)
	case errors.Is(err, queue.ErrUnfit):
		return fail("schema", "the installation is not opened, since the server is not fit", "see above")
	}
	return fail("schema", "the installation does not open: "+err.Error(), "see the log of Redis")
}

// checkScripts loads and runs a script that does nothing.
func checkScripts(ctx context.Context, rdb redis.UniversalClient, prefix string) Finding {
	script := redis.NewScript("return 1")
	err := script.Load(ctx, rdb).Err()
	if err == nil {
		err = script.EvalSha(ctx, rdb, []string{tag(prefix, 0)}).Err()
	}
	if err != nil {
		return fail("scripts", "they do not run: "+err.Error(), "ACL SETUSER with +@scripting for the user in SPOUT_REDIS")
	}
	return ok("scripts", "can be loaded and run")
}

// tag begins the keys of a shard.
func tag(prefix string, shard int) string { return "{" + prefix + ":" + strconv.Itoa(shard) + "}" }

// sickShown is how many sick buckets are named.
const sickShown = 3

// checkSick finds buckets that workers set aside because a script failed on them.
func checkSick(ctx context.Context, rdb redis.UniversalClient, prefix string, shards int) Finding {
	sick := map[string]string{}
	for shard := range shards {
		some, err := rdb.HGetAll(ctx, tag(prefix, shard)+":sick").Result()
		if err != nil {
			return fail("sick", "the sick buckets cannot be read: "+err.Error(), "see the log of Redis")
		}
		maps.Copy(sick, some)
	}
	if len(sick) == 0 {
		return ok("sick", "no bucket is set aside")
	}
	shown := slices.Sorted(maps.Keys(sick))
	shown = shown[:min(sickShown, len(shown))]
	for i, name := range shown {
		shown[i] = fmt.Sprintf("%s (%s)", name, sick[name])
	}
	text := strings.Join(shown, ", ")
	if more := len(sick) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fail("sick", fmt.Sprintf("buckets set aside by workers, nothing leaves them: %d: %s", len(sick), text),
		"mend their keys, then admin bucket resume CLASS/KEY")
}

// checkClasses counts the classes, and finds those that an interrupted apply left different between shards.
func checkClasses(ctx context.Context, client *queue.Client) Finding {
	const check, mend = "classes", "see the log of Redis"
	classes, err := client.Classes().List(ctx)
	if err != nil {
		return fail(check, "they cannot be read: "+err.Error(), mend)
	}
	if len(classes) == 0 {
		return ok(check, "none yet; admin class apply -f FILE makes them")
	}
	var paused, torn []string
	for _, class := range classes {
		same, err := sameInAllShards(ctx, client, class)
		switch {
		case err != nil:
			return fail(check, "they cannot be read: "+err.Error(), mend)
		case !same:
			torn = append(torn, class.Name)
		}
		if class.Paused {
			paused = append(paused, class.Name)
		}
	}
	switch {
	case len(torn) > 0:
		return fail(check, "not the same in all shards, as an interrupted apply leaves them: "+strings.Join(torn, ", "),
			"apply their class file again")
	case len(paused) > 0:
		return warn(check, fmt.Sprintf("%d, of which paused: %s", len(classes), strings.Join(paused, ", ")),
			"admin bucket resume CLASS")
	}
	return ok(check, strconv.Itoa(len(classes)))
}

func sameInAllShards(ctx context.Context, client *queue.Client, class queue.Class) (bool, error) {
	for shard := range client.Shards() {
		key := tag(client.Prefix(), shard) + ":class:" + class.Name
		version, err := client.Redis().HGet(ctx, key, "version").Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return false, err
		}
		if version != strconv.FormatInt(class.Version, 10) {
			return false, nil
		}
	}
	return true, nil
}
