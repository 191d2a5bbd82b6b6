package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// upstream is somebody else's API: it allows each tenant so many calls in any second and answers 429 above that.
type upstream struct {
	url    string
	server *http.Server

	mu      sync.Mutex
	recent  map[string][]time.Time // allowed calls of the last second, by tenant
	allowed int
	refused int
}

func startUpstream(ctx context.Context) (*upstream, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the upstream: %w", err)
	}
	u := &upstream{url: "http://" + listener.Addr().String()}
	u.forget()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{tenant}/messages", u.call)
	u.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := u.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err) // the demo makes no sense without it
		}
	}()
	return u, nil
}

func (u *upstream) call(w http.ResponseWriter, r *http.Request) {
	if !u.allow(r.PathValue("tenant"), time.Now()) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests", http.StatusTooManyRequests)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// grace is what the limit forgives: the network may bring two calls closer together than they were sent.
const grace = 60 * time.Millisecond

func (u *upstream) allow(tenant string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	recent := u.recent[tenant]
	for len(recent) > 0 && now.Sub(recent[0]) >= time.Second-grace {
		recent = recent[1:]
	}
	if len(recent) >= limit {
		u.recent[tenant] = recent
		u.refused++
		return false
	}
	u.recent[tenant] = append(recent, now)
	u.allowed++
	return true
}

// counts tells how many calls were allowed and how many refused.
func (u *upstream) counts() (allowed, refused int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.allowed, u.refused
}

// forget begins anew.
func (u *upstream) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.recent, u.allowed, u.refused = map[string][]time.Time{}, 0, 0
}

func (u *upstream) close() { _ = u.server.Close() }
