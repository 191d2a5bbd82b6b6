package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// server answers on the ops address.
type server struct {
	addr string
	http *http.Server
	done chan error
}

const (
	scrapeTime  = 10 * time.Second // for one scrape
	scrapesMost = 4                // at once
	closeTime   = 2 * time.Second
)

// listen begins to serve. What shows the inside of the process is there on a loopback address, or where debug allows it.
func listen(ctx context.Context, addr string, debug bool, o *Ops, level *slog.LevelVar) (*server, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: scrapesMost, Timeout: scrapeTime, Registry: o.Registry,
	}))
	mux.Handle("GET /livez", probe(o.Live))
	mux.Handle("GET /readyz", probe(o.Ready))
	if debug || isLoopback(l.Addr()) {
		inside(mux, level, o.log, debug)
	}
	s := &server{
		addr: l.Addr().String(),
		// No write timeout: a profile takes as long as it is asked for.
		http: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10},
		done: make(chan error, 1),
	}
	go func() { s.done <- s.http.Serve(l) }()
	o.log.LogAttrs(ctx, slog.LevelInfo, "ops address listens", slog.String("addr", s.addr))
	return s, nil
}

// close ends what is under way, if need be.
func (s *server) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close()
	}
	if err := <-s.done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// probe answers 200, or 503 and what is wrong.
func probe(check func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if err := check(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, err.Error()+"\n")
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
}

// inside serves what shows or changes the inside of the process.
func inside(mux *http.ServeMux, level *slog.LevelVar, log *slog.Logger, anyHost bool) {
	handle := func(pattern string, h http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if !anyHost && !namesLoopback(r.Host) { // a web page may have its own name resolved to us
				http.Error(w, "ask for it by a loopback address", http.StatusForbidden)
				return
			}
			h(w, r)
		})
	}
	handle("GET /debug/pprof/", pprof.Index)
	handle("GET /debug/pprof/cmdline", http.NotFound) // the command line may hold the address of Redis with its password
	handle("GET /debug/pprof/profile", pprof.Profile)
	handle("GET /debug/pprof/symbol", pprof.Symbol)
	handle("GET /debug/pprof/trace", pprof.Trace)
	handle("GET /loglevel", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.ToLower(level.Level().String())+"\n")
	})
	handle("PUT /loglevel", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64))
		var wanted slog.Level
		if err != nil || wanted.UnmarshalText([]byte(strings.TrimSpace(string(text)))) != nil {
			http.Error(w, "the body is none of debug, info, warn, error", http.StatusBadRequest)
			return
		}
		level.Set(min(wanted, slog.LevelInfo)) // so that this is seen
		log.LogAttrs(r.Context(), slog.LevelInfo, "log level changed", slog.String("level", wanted.String()))
		level.Set(wanted)
		w.WriteHeader(http.StatusNoContent)
	})
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// namesLoopback tells whether a Host header is localhost or a loopback address.
func namesLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}
