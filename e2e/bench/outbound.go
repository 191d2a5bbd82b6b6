package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/handlers"
)

const (
	outboundCalls = 20_000
	outboundHosts = 1000
	outboundIdle  = 20 * time.Second
)

// outbound: what http:call costs beyond net/http, against an upstream in another process.
func outbound(ctx context.Context, b *bench) ([]row, error) {
	up, err := startOutboundUpstream(ctx)
	if err != nil {
		return nil, err
	}
	defer up.stop()
	cpu, err := outboundCPU(ctx, b, up.plain[0])
	if err != nil {
		return nil, err
	}
	rows := []row{cpu}
	for _, side := range []struct {
		what  string
		bases []string
	}{{"HTTP/1.1", up.plain}, {"TLS and HTTP/2", up.tls}} {
		more, err := outboundMemory(ctx, side.what, side.bases)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// outboundCPU has both sides make the same calls in turn, one after the other on one connection.
func outboundCPU(ctx context.Context, b *bench, base string) (row, error) {
	h := handlers.NewHTTPCall(handlers.HTTPOptions{})
	defer h.CloseIdleConnections()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var theirs, ours, beyond []float64
	for range b.rounds {
		t, err := cpuPerCall(func() error { return plainCall(ctx, client, base) })
		if err != nil {
			return row{}, err
		}
		o, err := cpuPerCall(func() error { return h.ProcessTask(ctx, outboundTask(base)) })
		if err != nil {
			return row{}, err
		}
		theirs, ours, beyond = append(theirs, t), append(ours, o), append(beyond, o-t)
	}
	return row{
		"CPU of an http:call beyond a net/http call with the same headers and body", "< 100 µs",
		spanOf(beyond, "%.0f") + fmt.Sprintf(" µs; %.0f against %.0f µs", median(ours), median(theirs)),
	}, nil
}

var outboundBody = []byte(`{"order":7,"lines":[{"sku":"a","n":1},{"sku":"b","n":2}]}`) //nolint:gochecknoglobals // read only

func outboundTask(base string) *asynq.Task {
	payload, _ := json.Marshal(map[string]any{ //nolint:errchkjson // texts
		"method": "POST", "url": base + "/orders?page=7", "body": string(outboundBody),
		"headers": map[string]string{"Content-Type": "application/json", "Authorization": "Bearer abcdefgh"},
	})
	return asynq.NewTaskWithHeaders(handlers.HTTPCallType, payload, map[string]string{
		"Spout-Class": "orders", "Spout-Key": "tenant-7", "Spout-Id": "7", "Spout-Ref": "0-AAAAAAAAAAAAAAAAAAAAAA", "Spout-Attempt": "1",
		"Spout-Http": `{"allow_private":true,"hosts":["127.0.0.1"],"max_hold":"10m"}`,
	})
}

func plainCall(ctx context.Context, client *http.Client, base string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/orders?page=7", bytes.NewReader(outboundBody))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer abcdefgh")
	req.Header.Set("Idempotency-Key", "0-AAAAAAAAAAAAAAAAAAAAAA")
	req.Header.Set("Spout-Attempt", strconv.Itoa(1))
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return err
}

// cpuPerCall is the processor time of this process, in µs. The time to make the task of a call is in it.
func cpuPerCall(call func() error) (float64, error) {
	runtime.GC()
	before := cpuTime()
	for range outboundCalls {
		if err := call(); err != nil {
			return 0, err
		}
	}
	return float64(cpuTime()-before) / float64(time.Microsecond) / outboundCalls, nil
}

// outboundMemory calls many hosts once each: what an idle host costs while its connection is kept, and afterwards.
func outboundMemory(ctx context.Context, what string, bases []string) ([]row, error) {
	h := handlers.NewHTTPCall(handlers.HTTPOptions{IdleTimeout: outboundIdle})
	defer h.CloseIdleConnections()
	began := time.Now()
	before := memory()
	for _, base := range bases {
		if err := h.ProcessTask(ctx, outboundTask(base)); err != nil {
			return nil, err
		}
	}
	kept := memory() - before
	if took := time.Since(began); took > outboundIdle {
		return nil, fmt.Errorf("%d calls took %v: the first connections are gone", len(bases), took)
	}
	<-time.After(outboundIdle + 2*time.Second)
	gone := memory() - before
	runtime.KeepAlive(h)
	each := func(n int64) string { return fmt.Sprintf("%.1f KB", float64(n)/1e3/float64(len(bases))) }
	return []row{
		{fmt.Sprintf("memory per host of %d, idle and its connection closed, %s", len(bases), what), "< 20 KB", each(gone)},
		{"the same while its connection is kept", "< 20 KB", each(kept)},
	}, nil
}

// memory is the heap and the stacks in use, in bytes.
func memory() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse) //nolint:gosec // far below
}
