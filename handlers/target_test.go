package handlers_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/handlers"
)

func TestRefusalTellsWhatToSet(t *testing.T) {
	t.Parallel()
	srv := newService(t, ok)
	h := newCall(t, handlers.HTTPOptions{})
	address := strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
	for settings, want := range map[string]string{
		"":                        `let class "shop-api" call loopback, private and other special-purpose addresses set http: {allow_private: true}`,
		`{"hosts":["a.example"]}`: `is not in http: {hosts: [...]} of class "shop-api"`,
	} {
		err := h.ProcessTask(t.Context(), taskIn(t, object{"url": address + "/x?token=secret"}, settings))
		if !errors.Is(err, handlers.ErrRefused) || !errors.Is(err, asynq.SkipRetry) || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "GET "+address+"/x: target refused: ") {
			t.Errorf("settings %q: got %v, want %q in it", settings, err, want)
		}
	}
	if err := h.ProcessTask(t.Context(), taskIn(t, object{"url": address}, `{"allow_private":true}`)); err != nil {
		t.Errorf("with allow_private: %v", err)
	}
	// A connection made for a class that may must not serve one that may not.
	if err := h.ProcessTask(t.Context(), taskIn(t, object{"url": address}, "")); !errors.Is(err, handlers.ErrRefused) {
		t.Errorf("after a call with allow_private: got %v, want ErrRefused", err)
	}
}

// TestGuardLooksAtTheAddress: names do not matter, and public addresses may be
// called on any port.
func TestGuardLooksAtTheAddress(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"8.8.8.8:1", "1.1.1.1:65535", "172.15.0.1:80", "172.32.0.1:80", "[2606:4700::1111]:22"} {
		network := "tcp4"
		if address[0] == '[' {
			network = "tcp6"
		}
		if err := handlers.Guard(network, address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{"127.0.0.1:80", "[64:ff9b::808:808]:80", "[::ffff:8.8.8.8]:80", "a.example:80"} {
		if handlers.Guard("tcp6", address) == nil {
			t.Errorf("%s is not refused", address)
		}
	}
	if handlers.Guard("unix", "8.8.8.8:80") == nil {
		t.Error("a unix socket is not refused")
	}
}

func TestHostsNarrow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		url, hosts string
		want       bool
	}{
		{"http://a.example", `"a.example"`, true},
		{"https://A.Example:8443", `"b.example","a.eXample"`, true},
		{"http://a.example", `"a.example:80"`, true},
		{"https://a.example", `"a.example:443"`, true},
		{"https://a.example", `"a.example:80"`, false},
		{"http://a.example:81", `"a.example:80"`, false},
		{"http://b.a.example", `"a.example"`, false},
		{"http://b.a.example", `"*.a.example"`, false},
		{"http://a.example.", `"a.example"`, false},
		{"http://a.example", `""`, false},
		{"http://a.example", `"http://a.example"`, false},
		{"http://a.example", `":80"`, false},
		{"http://[2606:4700:0::1]", `"2606:4700::1"`, true},
		{"http://[2606:4700::1]", `"[2606:4700::1]"`, true},
		{"http://[2606:4700::1]", `"[2606:4700::1]:80"`, true},
		{"http://[::ffff:8.8.8.8]", `"8.8.8.8"`, true},
		{"http://8.8.8.8", `"8.8.8.9"`, false},
	} {
		var dials int
		h := handlers.NewTestHTTPCall(handlers.HTTPOptions{}, func(context.Context, string, string) (net.Conn, error) {
			dials++
			return nil, errNoNetwork
		}, nil)
		err := h.ProcessTask(t.Context(), taskIn(t, object{"url": test.url}, `{"hosts":[`+test.hosts+`]}`))
		if allowed := errors.Is(err, errNoNetwork); allowed != test.want || errors.Is(err, handlers.ErrRefused) == test.want || (dials == 1) != test.want {
			t.Errorf("%s with hosts %s: got %v after %d dials, want allowed = %v", test.url, test.hosts, err, dials, test.want)
		}
	}
}

func TestSchemesAndPortsNarrow(t *testing.T) {
	t.Parallel()
	h := handlers.NewTestHTTPCall(handlers.HTTPOptions{}, noNetwork, nil)
	for _, test := range []struct {
		url, settings string
		refused       string
	}{
		{"http://a.example", `{"schemes":["http"]}`, ""},
		{"http://a.example", `{"schemes":["http","https"]}`, ""},
		{"http://a.example", `{"schemes":[]}`, ""},
		{"http://a.example", `{"schemes":["https"]}`, `scheme "http" is not in http: {schemes: [...]} of class "shop-api"`},
		{"https://a.example", `{"schemes":["http"]}`, `scheme "https" is not in`},
		{"http://a.example", `{"ports":[80]}`, ""},
		{"https://a.example", `{"ports":[80,443]}`, ""},
		{"http://a.example:8080", `{"ports":[8080]}`, ""},
		{"http://a.example:80", `{"ports":[8080]}`, `port 80 is not in http: {ports: [...]} of class "shop-api"`},
		{"https://a.example", `{"ports":[80]}`, "port 443 is not in"},
		{"http://a.example:080", `{"ports":[80]}`, "port 080 is not in"},
	} {
		err := h.ProcessTask(t.Context(), taskIn(t, object{"url": test.url}, test.settings))
		if refused := errors.Is(err, handlers.ErrRefused); refused != (test.refused != "") || !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s with %s: %v, want %q", test.url, test.settings, err, test.refused)
		}
	}
}

func TestUnreadableSettingsFailClosed(t *testing.T) {
	t.Parallel()
	srv := newService(t, ok)
	h := newCall(t, handlers.HTTPOptions{})
	for _, settings := range []string{
		` `, `null`, `true`, `{"allow_private":true`, `{"allow_private":"true"}`, `{"allow_private":1}`, `{"Allow_Private":true}`,
		`{"allow_private":true,"hosts":"127.0.0.1"}`, `{"allow_private":true,"hosts":[1]}`, `{"allow_private":true,"paths":[]}`,
		`{"allow_private":true,"schemes":"http"}`, `{"allow_private":true,"ports":["80"]}`, `{"allow_private":true,"ports":[1.5]}`,
		`{"allow_private":true,"redirects":"3"}`, `{"allow_private":true,"secrets":{}}`, `{"allow_private":true,"hold":1}`,
		`{"allow_private":true,"max_hold":5}`, `{"allow_private":true,"max_hold":"soon"}`, `{"allow_private":true,"max_hold":"-1s"}`,
		`{"allow_private":true,"anonymous":"no"}`,
		`{"allow_private":true,"allow_private":true}`, `{"allow_private":true} x`,
	} {
		err := h.ProcessTask(t.Context(), taskIn(t, object{"url": srv.URL}, settings))
		if !errors.Is(err, asynq.SkipRetry) || !strings.Contains(err.Error(), "Spout-Http") {
			t.Errorf("settings %q: got %v, want a permanent error about the header", settings, err)
		}
	}
	empty := asynq.NewTaskWithHeaders(handlers.HTTPCallType, []byte(`{"url":"`+srv.URL+`"}`), map[string]string{"Spout-Http": ""})
	if err := h.ProcessTask(t.Context(), empty); !errors.Is(err, asynq.SkipRetry) {
		t.Errorf("empty settings: got %v, want a permanent error", err)
	}
	bare := asynq.NewTask(handlers.HTTPCallType, []byte(`{"url":"`+srv.URL+`"}`))
	if err := h.ProcessTask(t.Context(), bare); !errors.Is(err, handlers.ErrRefused) {
		t.Errorf("no headers at all: got %v, want ErrRefused", err)
	}
	if n := srv.conns.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}
