package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// BucketQuery asks for a page of buckets.
type BucketQuery struct {
	// Class of the buckets; empty means all classes, by name.
	Class string
	// Prefix of their keys; empty means all.
	Prefix string
	// After is where the page before ended, as [Buckets.Page] told; empty for the first page.
	After string
	// Limit is about how many, 1 to 1000; 0 means 100.
	Limit int
}

const (
	pageUsual = 100
	pageMost  = 1000
	// scanMost is how many entries of the indexes one page looks at, about; scansMost how many calls that may take.
	scanMost  = 1000
	scansMost = 40
)

// limit checks how many things are wanted of a page.
func limit(n int) (int, error) {
	if n < 0 || n > pageMost {
		return 0, fmt.Errorf("%w: limit %d is not between 1 and %d", ErrInvalid, n, pageMost)
	}
	if n == 0 {
		return pageUsual, nil
	}
	return n, nil
}

// Page reads a page of the buckets that have jobs, remember something or are closed, sick ones included, and tells where the
// next one begins; empty after the last. It goes through the index as it lies there, in an order that means nothing but
// stays; what is there from the first page to the last is found, and may be found twice when many buckets come or go in
// between. Work per call is bounded, so a page of a rare prefix may be short, even empty, with another to follow; one may
// have a few buckets more than asked for.
//
// The error wraps [ErrUnknownClass], or [ErrInvalid] for a limit or a cursor that is none.
func (s Buckets) Page(ctx context.Context, q BucketQuery) (list []Bucket, next string, err error) {
	w := bucketWalk{shards: len(s.c.tags)}
	if err := readCursor(q.After, &w); err != nil {
		return nil, "", err
	}
	if q.Class != "" {
		if _, err := s.c.Classes().Get(ctx, q.Class); err != nil {
			return nil, "", err
		}
	}
	return s.page(ctx, &w, q)
}

func (s Buckets) page(ctx context.Context, w *bucketWalk, q BucketQuery) (list []Bucket, next string, err error) {
	most, err := limit(q.Limit)
	if err != nil {
		return nil, "", err
	}
	if err := w.begin(ctx, s.c, q.Class); err != nil {
		return nil, "", err
	}
	names := make([][]string, len(s.c.tags))
	found := 0
	for looked, scans := 0, 0; !w.Done && found < most && looked < scanMost && scans < scansMost; scans++ {
		shard := w.Shard
		some, n, err := w.step(ctx, s.c, q.Prefix, most-found)
		if err != nil {
			return nil, "", err
		}
		looked += n
		for _, name := range some {
			if !slices.Contains(names[shard], name) {
				names[shard] = append(names[shard], name)
				found++
			}
		}
	}
	for shard := range names {
		for part := range slices.Chunk(names[shard], touchMost) {
			states, err := s.states(ctx, shard, part)
			if err != nil {
				return nil, "", err
			}
			list = append(list, states...)
		}
	}
	if w.Done {
		return list, "", nil
	}
	return list, writeCursor(w), nil
}

// bucketWalk goes through the names of all known buckets: class by class, shard by shard, first those in the due index and
// then those that were set aside as sick. What is exported is where it stands.
type bucketWalk struct {
	Class string `json:"c"`
	Shard int    `json:"s"`
	Sick  bool   `json:"k,omitempty"`
	Done  bool   `json:"d,omitempty"`
	place

	shards int  // it goes through all of them
	only   bool // through one class
}

// place is where a scan of one index stands: Redis's own cursor, and the last name that was taken of what it returned from
// there, when that was too much at once.
type place struct {
	Cursor uint64 `json:"p,omitempty"`
	Last   string `json:"l,omitempty"`
}

// begin sets out, or goes on; through one class only unless that is empty.
func (w *bucketWalk) begin(ctx context.Context, c *Client, class string) error {
	if w.Shard < 0 || w.Shard >= w.shards || (w.Class != "" && !isClassName(w.Class)) {
		return errCursor
	}
	w.only = class != ""
	switch {
	case w.only && w.Class != class:
		w.enter(class)
	case w.Class == "":
		return w.nextClass(ctx, c)
	}
	return nil
}

// enter begins with a class.
func (w *bucketWalk) enter(class string) {
	w.Class, w.Shard, w.Sick, w.place = class, 0, false, place{}
}

// nextClass goes on with the class behind the one it is at.
func (w *bucketWalk) nextClass(ctx context.Context, c *Client) error {
	names, err := c.rdb.SMembers(ctx, c.tags[0]+":classes").Result()
	if err != nil {
		return readError("list classes", err)
	}
	slices.Sort(names)
	i := searched(names, w.Class+"\x00")
	if w.Done = i == len(names); !w.Done {
		w.enter(names[i])
	}
	return nil
}

// searched is where a name is, or would be, among sorted ones.
func searched(names []string, name string) int {
	i, _ := slices.BinarySearch(names, name)
	return i
}

// step takes about n names from where the walk stands and moves it on. looked is how many entries it went through.
func (w *bucketWalk) step(ctx context.Context, c *Client, prefix string, n int) (names []string, looked int, err error) {
	match := globbed(w.Class+"/"+prefix) + "*"
	count := int64(max(n, 10))
	if w.Sick {
		names, looked, err = w.scan(n, int(count), func(cursor uint64) ([]string, uint64, error) {
			return c.rdb.HScan(ctx, c.tags[w.Shard]+":sick", cursor, match, count).Result()
		})
	} else {
		names, looked, err = w.scan(n, int(count), func(cursor uint64) ([]string, uint64, error) {
			return c.rdb.ZScan(ctx, c.key(w.Shard, "due", w.Class), cursor, match, count).Result()
		})
	}
	if err != nil {
		return nil, 0, readError("list buckets of class "+w.Class, err)
	}
	if w.place == (place{}) {
		err = w.advance(ctx, c)
	}
	return names, looked, err
}

// advance goes to the next index.
func (w *bucketWalk) advance(ctx context.Context, c *Client) error {
	switch {
	case !w.Sick:
		w.Sick = true
	case w.Shard+1 < w.shards:
		w.Sick = false
		w.Shard++
	case w.only:
		w.Done = true
	default:
		return w.nextClass(ctx, c)
	}
	return nil
}

// scan takes names from one index, about n of them, and moves the place on: to zero when the index has no more. A small
// index comes as a whole, in an order that changes, so it is taken by name; of a large one it takes what the scan returns,
// and where that is by far too much, goes on behind the last name the next time, or if that is gone, takes all once more.
func (p *place) scan(n, count int, scan func(cursor uint64) ([]string, uint64, error)) (names []string, looked int, err error) {
	pairs, next, err := scan(p.Cursor)
	if err != nil {
		return nil, 0, err
	}
	for i := 0; i < len(pairs); i += 2 {
		names = append(names, pairs[i])
	}
	looked = max(count, len(names))
	most := 2 * n
	if p.Cursor == 0 && next == 0 {
		most = n
		slices.Sort(names)
		from, found := slices.BinarySearch(names, p.Last)
		if found {
			from++
		}
		names = names[from:]
	} else if i := slices.Index(names, p.Last); i >= 0 {
		names = names[i+1:]
	}
	if len(names) > most {
		names = names[:n]
		p.Last = names[n-1]
		return names, looked, nil
	}
	*p = place{Cursor: next}
	return names, looked, nil
}

// globbed writes a text so that MATCH takes it literally.
func globbed(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
