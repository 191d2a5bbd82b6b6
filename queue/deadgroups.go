package queue

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// DeadGroups are the errors of the newest dead jobs of a class, alike ones together.
type DeadGroups struct {
	// Groups, those with most jobs first.
	Groups []DeadGroup
	// Looked is how many dead jobs this is of, the newest 1,000 of each shard at most, and Kept how many there are.
	Looked, Kept int
	// Others is how many jobs of those looked at are in groups beyond the limit.
	Others int
}

// DeadGroup is jobs that died of the same, but for numbers, names and the like.
type DeadGroup struct {
	// Text is the error with what differs folded: # for numbers, ‹id› for identifiers, ‹…› for quoted texts; at most 200 bytes.
	Text string
	// Count of jobs, and when the Newest of them died, which is Example; Error is that one's.
	Count   int
	Newest  time.Time
	Example string
	Error   string
	// Keys of their buckets, up to 10, those with most of the jobs first, and how many there are.
	Keys     []string
	KeyCount int
}

const (
	groupsOf   = 1000 // dead jobs of each shard
	groupKeys  = 10
	groupText  = 200
	groupsMost = 100
)

// Groups tells what the newest dead jobs of a class died of: up to limit groups, 1 to 100; 0 means 20. It reads up to 1,000 jobs
// of each shard, in batches.
func (d DeadJobs) Groups(ctx context.Context, class string, limit int) (DeadGroups, error) {
	if limit <= 0 || limit > groupsMost {
		limit = 20
	}
	if _, err := d.c.Classes().Get(ctx, class); err != nil {
		return DeadGroups{}, err
	}
	kept, err := d.Count(ctx, class)
	if err != nil {
		return DeadGroups{}, err
	}
	sum := DeadGroups{Kept: kept}
	groups := map[string]*grouping{}
	for shard := range d.c.tags {
		refs, err := d.c.rdb.ZRevRange(ctx, d.c.key(shard, "dead", class), 0, groupsOf-1).Result()
		if err != nil {
			return DeadGroups{}, readError("list dead jobs of class "+class, err)
		}
		for part := range slices.Chunk(refs, touchMost) {
			n, err := d.group(ctx, shard, part, groups)
			if err != nil {
				return DeadGroups{}, err
			}
			sum.Looked += n
		}
	}
	for _, g := range groups {
		sum.Groups = append(sum.Groups, g.finish())
	}
	slices.SortFunc(sum.Groups, func(a, b DeadGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.Newest.Compare(a.Newest), cmp.Compare(a.Text, b.Text))
	})
	for _, g := range sum.Groups[min(limit, len(sum.Groups)):] {
		sum.Others += g.Count
	}
	sum.Groups = sum.Groups[:min(limit, len(sum.Groups))]
	return sum, nil
}

// grouping is a group as it grows.
type grouping struct {
	DeadGroup
	keys map[string]int
}

// group adds dead jobs to the groups of their errors and tells how many it found.
func (d DeadJobs) group(ctx context.Context, shard int, refs []string, groups map[string]*grouping) (found int, err error) {
	pipe := d.c.rdb.Pipeline()
	calls := make([]*redis.SliceCmd, len(refs))
	for i, ref := range refs {
		calls[i] = pipe.HMGet(ctx, d.c.key(shard, "job", ref), "is", "error", "ended")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, readError("read dead jobs", err)
	}
	for i, call := range calls {
		r := reply(call.Val())
		_, bucket, ok := strings.Cut(r.text(0), "\n")
		if !ok || r.int(2) == 0 { // it went meanwhile, or goes round again
			continue
		}
		found++
		text := Alike(r.text(1))
		g := groups[text]
		if g == nil {
			g = &grouping{DeadGroup{Text: text}, map[string]int{}}
			groups[text] = g
		}
		_, key, _ := strings.Cut(bucket, "/")
		g.keys[key]++
		g.Count++
		if at := time.UnixMicro(r.int(2)).UTC(); at.After(g.Newest) {
			g.Newest, g.Example, g.Error = at, refs[i], r.text(1)
		}
	}
	return found, nil
}

func (g *grouping) finish() DeadGroup {
	g.KeyCount = len(g.keys)
	for key := range g.keys {
		g.Keys = append(g.Keys, key)
	}
	slices.SortFunc(g.Keys, func(a, b string) int { return cmp.Or(cmp.Compare(g.keys[b], g.keys[a]), cmp.Compare(a, b)) })
	g.Keys = g.Keys[:min(groupKeys, len(g.Keys))]
	return g.DeadGroup
}

// differs is what tells two errors of the same kind apart, in this order of preference: quoted texts, identifiers (UUIDs, and hex
// digits and letters among which there is a digit, 8 or more), numbers.
var differs = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'|` + "`[^`]*`" +
	`|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b` +
	`|\b(?:0x)?[0-9a-fA-F]{8,}\b|[0-9]+(?:\.[0-9]+)*`)

// Alike folds what differs between errors of the same kind, see [DeadGroup].
func Alike(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	text = differs.ReplaceAllStringFunc(text, func(s string) string {
		switch {
		case strings.ContainsAny(s[:1], "\"'`"):
			return "‹…›"
		case strings.Trim(s, "0123456789.") == "":
			return "#"
		case strings.ContainsAny(s, "0123456789"):
			return "‹id›"
		default: // a word of letters that hex has too
			return s
		}
	})
	if len(text) > groupText {
		text = strings.ToValidUTF8(text[:groupText-len("…")], "") + "…"
	}
	return text
}
