package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// writePair writes a certificate for loopback with a number, and its key, and returns it.
func writePair(t *testing.T, cert, key string, number int64) *x509.Certificate {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(number), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{key: {Type: "PRIVATE KEY", Bytes: encoded}, cert: {Type: "CERTIFICATE", Bytes: der}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestServeTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	roots := x509.NewCertPool()
	roots.AddCert(writePair(t, cert, key, 1))
	line := served(t, "--tls-cert", cert, "--tls-key", key)
	_, rest, ok := strings.Cut(line, "https://")
	host, _, _ := strings.Cut(rest, "/")
	if !ok {
		t.Fatalf("it says %q", line)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+host+"/v1/classes", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it is not read
	if resp.StatusCode != http.StatusOK || resp.Proto != "HTTP/2.0" || resp.Header.Get("Strict-Transport-Security") == "" {
		t.Errorf("%s, %s, %v", resp.Proto, resp.Status, resp.Header)
	}
}

// TestRenewed has a certificate that changes while it is used.
func TestRenewed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	synctest.Test(t, func(t *testing.T) {
		writePair(t, cert, key, 1)
		var log strings.Builder
		pair := &keyPair{cert: cert, key: key, log: slog.New(slog.NewTextHandler(&log, nil))}
		if err := pair.read(); err != nil {
			t.Fatal(err)
		}
		expect := func(when string, want int64) {
			t.Helper()
			got, err := pair.certificate(&tls.ClientHelloInfo{})
			if err != nil || got.Leaf.SerialNumber.Int64() != want {
				t.Errorf("%s: %v, %v, want %d", when, got.Leaf.SerialNumber, err, want)
			}
		}
		expect("at first", 1)
		writePair(t, cert, key, 2)
		if err := os.Chtimes(cert, time.Time{}, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		expect("at once", 1)
		<-time.After(11 * time.Second)
		expect("soon after", 2)
		if err := os.Truncate(cert, 0); err != nil {
			t.Fatal(err)
		}
		<-time.After(11 * time.Second)
		expect("while it is written", 2)
		if !strings.Contains(log.String(), "the changed certificate is not used") {
			t.Errorf("the log says %s", &log)
		}
	})
}
