package client

import (
	"context"
	"iter"
	"maps"
	"net/url"

	"github.com/spout-queue/spout/cmd/internal/wire"
)

// pages goes through a list, page by page as it is asked for. An error ends it.
func pages[W, Q any](
	ctx context.Context, c *Client, what, path string, query url.Values, read func(W) (Q, error),
) iter.Seq2[Q, error] {
	return func(yield func(Q, error) bool) {
		var none Q
		query := cloned(query)
		for {
			page, err := get[wire.Page[W]](ctx, c, what, path, query)
			if err != nil {
				yield(none, err)
				return
			}
			for _, item := range page.Items {
				one, err := read(item)
				if !yield(one, err) || err != nil {
					return
				}
			}
			if page.Next == "" {
				return
			}
			query.Set("cursor", page.Next)
			query.Del("before") // the cursor has it
		}
	}
}

func cloned(query url.Values) url.Values {
	if query == nil {
		return url.Values{}
	}
	return maps.Clone(query)
}

// sure makes a reader of one that cannot fail.
func sure[W, Q any](read func(W) Q) func(W) (Q, error) {
	return func(w W) (Q, error) { return read(w), nil }
}
