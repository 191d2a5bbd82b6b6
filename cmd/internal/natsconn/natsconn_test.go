package natsconn_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/spout-queue/spout/cmd/internal/natsconn"
	"github.com/spout-queue/spout/internal/natstest"
)

func connect(tb testing.TB, o natsconn.Options) error {
	tb.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	c, err := natsconn.Connect(tb.Context(), o)
	if err == nil {
		tb.Cleanup(c.Close)
	}
	return err
}

func write(tb testing.TB, name, text string) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}

// An nkey and a context of the nats command line open the door; who has nothing, or another key, is refused at once.
func TestNKeyAndContext(t *testing.T) {
	t.Parallel()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	s := natstest.Start(t, func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} })
	file := write(t, "seed", string(seed))
	if err := connect(t, natsconn.Options{URL: s.URL, NKey: file}); err != nil {
		t.Errorf("with the key: %v", err)
	}
	named := write(t, "prod.json", fmt.Sprintf(`{"url":%q,"nkey":%q}`, s.URL, file))
	if err := connect(t, natsconn.Options{Context: named}); err != nil {
		t.Errorf("with the context: %v", err)
	}
	begin := time.Now()
	if err := connect(t, natsconn.Options{URL: s.URL}); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("with nothing: %v", err)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %v to be refused", took)
	}
}

// A user and password in the URL are not in the errors.
func TestPassword(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, func(o *server.Options) { o.Username, o.Password = "u", "correct" })
	addr := s.URL[len("nats://"):]
	if err := connect(t, natsconn.Options{URL: "nats://u:correct@" + addr}); err != nil {
		t.Error(err)
	}
	if err := connect(t, natsconn.Options{URL: "nats://u:wrong@" + addr}); !errors.Is(err, nats.ErrAuthorization) || strings.Contains(err.Error(), "wrong") {
		t.Errorf("got %v", err)
	}
	for _, text := range []string{"nats://u:secr%et@" + addr, "nats://u:secret@[::1", "nats://u:secret@127.0.0.1:x", "nats://u:sec/ret@" + addr, "http://u:secret@127.0.0.1:1"} {
		for _, o := range []natsconn.Options{{URL: text}, {Context: write(t, "c.json", fmt.Sprintf(`{"url":%q}`, text))}} {
			o.Patience = time.Millisecond
			if err := connect(t, o); err == nil || strings.Contains(err.Error(), "sec") {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

// A token in the URL is not in what the connection calls its server.
func TestAddress(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, func(o *server.Options) { o.Authorization = "secret" })
	addr := s.URL[len("nats://"):]
	c, err := natsconn.Connect(t.Context(), natsconn.Options{URL: "nats://secret@" + addr, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Address(); got != "nats://"+addr {
		t.Errorf("got %s", got)
	}
	c.Close()
	if got := c.Address(); got != "" {
		t.Errorf("closed: got %s", got)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]natsconn.Options{
		"both":              {URL: "nats://127.0.0.1:1", Context: "x"},
		"unknown context":   {Context: "nosuch-" + t.Name()},
		"no seed":           {NKey: "/nowhere/seed"},
		"half a pair":       {Cert: "/nowhere/cert"},
		"no authority":      {CA: "/nowhere/ca"},
		"no credentials":    {Creds: "/nowhere/creds"},
		"no scheme of ours": {URL: "http://127.0.0.1:1"},
	} {
		if err := connect(t, o); !errors.Is(err, natsconn.ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A NATS that is away is waited for, for so long.
func TestAway(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	s.Stop()
	err := connect(t, natsconn.Options{URL: s.URL, Patience: 100 * time.Millisecond})
	if !errors.Is(err, natsconn.ErrAway) {
		t.Errorf("got %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- connect(t, natsconn.Options{URL: s.URL}) }()
	s.Restart()
	if err := <-ended; err != nil {
		t.Errorf("it came back: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Stop()
	if _, err := natsconn.Connect(ctx, natsconn.Options{URL: s.URL, Log: slog.New(slog.DiscardHandler)}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// Over TLS the authority must be trusted; an error says what is wrong with the certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	web := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(web.Close)
	s := natstest.Start(t, func(o *server.Options) { o.TLSConfig = web.TLS.Clone() })
	ca := write(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})))
	if err := connect(t, natsconn.Options{URL: s.URL, CA: ca}); err != nil {
		t.Error(err)
	}
	if err := connect(t, natsconn.Options{Context: write(t, "tls.json", fmt.Sprintf(`{"url":%q,"ca":%q}`, s.URL, ca))}); err != nil {
		t.Errorf("with the context: %v", err)
	}
	err := connect(t, natsconn.Options{URL: s.URL, Patience: 2 * time.Second})
	if !errors.Is(err, natsconn.ErrAway) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("not trusted: %v", err)
	}
}
