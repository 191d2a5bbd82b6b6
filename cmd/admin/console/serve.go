package console

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/lasting"
)

// How long a client may take, and how much it may say.
const (
	headerTime      = 5 * time.Second  // for the head of a request
	readTime        = 30 * time.Second // for all of it
	writeTime       = 30 * time.Second // for the answer, unless its handler asks for more
	idleTime        = 2 * time.Minute  // between two requests
	headerMost      = 32 << 10         // bytes of a head
	connectionsMost = 4096             // open at once
	endTime         = 10 * time.Second // for what is under way when the server ends
	lastTime        = time.Second      // of that, to say what was done of what is cut short
)

// Serve answers requests on a listener until ctx ends, and then for as long as what is under way takes, at most 10 s. It closes
// the listener. Streams and those who wait are told to end at once. With a TLS configuration it speaks TLS, and HTTP/2.
//
// At most Options.Connections are open at once. When there are more, the one that has been silent longest makes room: first
// of those that never sent a request, then of those that rest between two. So clients that open connections and
// say nothing keep nobody out.
func (c *Console) Serve(ctx context.Context, l net.Listener, config *tls.Config) error {
	door := newDoorman(c.connections)
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	server := &http.Server{
		Handler: c, TLSConfig: config, ConnState: door.state,
		ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime, MaxHeaderBytes: headerMost,
		BaseContext: func(net.Listener) context.Context { return lasting.With(requests, ctx) },
		ErrorLog:    slog.NewLogLogger(c.log.Handler(), slog.LevelDebug), // what clients do wrong
	}
	ended := make(chan error, 1)
	go func() {
		if config == nil {
			ended <- server.Serve(l)
			return
		}
		ended <- server.ServeTLS(l, "", "")
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	defer time.AfterFunc(endTime-lastTime, cut).Stop()
	stop, stopped := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer stopped()
	if err := server.Shutdown(stop); err != nil {
		c.log.LogAttrs(ctx, slog.LevelWarn, "requests were cut off at the end", slog.Any("error", errors.Join(err, server.Close())))
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
