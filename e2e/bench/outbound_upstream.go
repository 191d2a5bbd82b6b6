package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// outboundEnv makes this program the upstream of outbound.
const outboundEnv = "SPOUT_BENCH_UPSTREAM"

// outboundUpstream is a process that answers on many ports, half of them with TLS.
type outboundUpstream struct {
	cmd        *exec.Cmd
	dir        string
	plain, tls []string // base urls
}

func startOutboundUpstream(ctx context.Context) (*outboundUpstream, error) {
	dir, err := os.MkdirTemp("", "spout-bench")
	if err != nil {
		return nil, err
	}
	u := &outboundUpstream{dir: dir, cmd: exec.CommandContext(ctx, os.Args[0])} //nolint:gosec // this program itself
	if err := trustTestServers(dir); err != nil {
		return nil, err
	}
	u.cmd.Env, u.cmd.Stderr = append(os.Environ(), outboundEnv+"=1"), os.Stderr
	out, err := u.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := u.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for len(u.plain)+len(u.tls) < 2*outboundHosts && lines.Scan() {
		if base := lines.Text(); strings.HasPrefix(base, "https") {
			u.tls = append(u.tls, base)
		} else {
			u.plain = append(u.plain, base)
		}
	}
	if len(u.tls) < outboundHosts {
		return nil, errors.Join(fmt.Errorf("the upstream has only %d ports", len(u.plain)+len(u.tls)), lines.Err())
	}
	return u, nil
}

func (u *outboundUpstream) stop() {
	_ = u.cmd.Process.Kill()
	_ = u.cmd.Wait()
	_ = os.RemoveAll(u.dir)
}

// trustTestServers has this process trust the certificate that httptest gives its servers, before it first asks the system
// which ones it trusts.
func trustTestServers(dir string) error {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	file := filepath.Join(dir, "cert.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		return err
	}
	return os.Setenv("SSL_CERT_FILE", file)
}

// serveOutbound is the upstream. It prints its urls and answers until it is killed.
func serveOutbound(ctx context.Context) error {
	answer := []byte(`{"id":7,"state":"paid"}`)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	var lc net.ListenConfig
	var wg sync.WaitGroup
	for i := range 2 * outboundHosts {
		l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		scheme := "http"
		if i%2 == 1 {
			scheme, l = "https", tls.NewListener(l, srv.TLS)
		}
		fmt.Printf("%s://%s\n", scheme, l.Addr())
		wg.Go(func() { _ = srv.Config.Serve(l) })
	}
	wg.Wait()
	return nil
}
