package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TLSServer is a redis-server that speaks TLS only. Its certificate is valid
// for 127.0.0.1 and localhost, and its own authority.
type TLSServer struct {
	*Server

	URL    string      // rediss://host:port
	CAFile string      // PEM, for programs
	Config *tls.Config // trusts the certificate, for clients in Go
}

// TLS starts a TLSServer. Clients need no certificate.
func TLS(tb testing.TB) *TLSServer {
	tb.Helper()
	dir := tempDir(tb)
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	cert := certify(tb, certFile, keyFile)
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AddCert(cert)
	s := start(tb, dir, config, func(port string) []string {
		return []string{
			"--port", "0", "--tls-port", port, "--tls-auth-clients", "no", "--save", "",
			"--tls-cert-file", certFile, "--tls-key-file", keyFile, "--tls-ca-cert-file", certFile,
		}
	})
	return &TLSServer{Server: s, URL: "rediss://" + s.Addr, CAFile: certFile, Config: config}
}

// certify makes a certificate that signs itself and writes it and its key.
func certify(tb testing.TB, certFile, keyFile string) *x509.Certificate {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(tb, err, "generate key")
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:              []string{"localhost"},
	}
	certDER, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(tb, err, "create certificate")
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	check(tb, err, "marshal key")
	writePEM(tb, certFile, "CERTIFICATE", certDER)
	writePEM(tb, keyFile, "PRIVATE KEY", keyDER)
	cert, err := x509.ParseCertificate(certDER)
	check(tb, err, "parse certificate")
	return cert
}

func writePEM(tb testing.TB, file, kind string, der []byte) {
	tb.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	check(tb, os.WriteFile(file, text, 0o600), "write "+kind)
}
