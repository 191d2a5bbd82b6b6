// Package lasting lets requests that would go on for long end with the server, which lets all others be answered.
package lasting

import "context"

// key is under which a context of a request has that of what lasts.
type key struct{}

// With returns a context of requests in which what lasts ends with another one.
func With(ctx, ends context.Context) context.Context { return context.WithValue(ctx, key{}, ends) }

// Until returns a context for that part of a request that lasts, a stream or a wait: it ends with the request, and as soon as the
// server begins to. Cancel it when that part is over.
func Until(ctx context.Context) (context.Context, context.CancelFunc) {
	own, cancel := context.WithCancel(ctx)
	ends, ok := ctx.Value(key{}).(context.Context)
	if !ok {
		return own, cancel
	}
	stop := context.AfterFunc(ends, cancel)
	return own, func() { stop(); cancel() }
}
