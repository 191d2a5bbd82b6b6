package redisurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
)

const defaultPort = "6379"

// Parse reads an address in one of the forms of the package comment.
func Parse(s string) (*Target, error) {
	t, secure, rest, err := parseScheme(s)
	if err != nil {
		return nil, err
	}
	authority, path, query := split(rest)
	if strings.Contains(path+query, "@") { // the / or ? is part of a password, and so is what follows it
		return nil, errors.New("there is an @ behind the first / or ?: in a user or password write / as %2F and ? as %3F, " +
			"in a parameter @ as %40")
	}
	hosts, err := t.parseUser(authority)
	if err != nil {
		return nil, err
	}
	if err := t.parseHosts(hosts); err != nil {
		return nil, err
	}
	if err := t.parsePath(path); err != nil {
		return nil, err
	}
	return t, t.parseQuery(query, secure)
}

func parseScheme(s string) (t *Target, secure bool, rest string, err error) {
	if s == "" {
		return nil, false, "", errors.New("the address is empty; write redis://host:port")
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return &Target{kind: single}, false, s, nil
	}
	for _, k := range []struct {
		scheme string
		kind   kind
		secure bool
	}{
		{"redis", single, false},
		{"rediss", single, true},
		{"redis+cluster", cluster, false},
		{"rediss+cluster", cluster, true},
		{"redis+sentinel", sentinel, false},
		{"rediss+sentinel", sentinel, true},
	} {
		if scheme == k.scheme {
			return &Target{kind: k.kind}, k.secure, rest, nil
		}
	}
	return nil, false, "", errors.New("the scheme is none of redis, rediss, redis+cluster, rediss+cluster, redis+sentinel, " +
		"rediss+sentinel")
}

// split cuts what follows the scheme. The path keeps no slash in front.
func split(s string) (authority, path, query string) {
	s, query, _ = strings.Cut(s, "?")
	authority, path, _ = strings.Cut(s, "/")
	return authority, path, query
}

// parseUser takes user and password off an authority.
func (t *Target) parseUser(authority string) (hosts string, err error) {
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return authority, nil
	}
	user, password, _ := strings.Cut(authority[:at], ":")
	if t.user, err = url.PathUnescape(user); err == nil {
		t.password, err = url.PathUnescape(password)
	}
	if err != nil { // its text has the part that is wrong
		return "", errors.New("user or password has a % that is no escape: write % as %25")
	}
	return authority[at+1:], nil
}

func (t *Target) parseHosts(hosts string) error {
	list := strings.Split(hosts, ",")
	if t.kind == single && len(list) > 1 {
		return errors.New("several addresses: for a Redis Cluster write redis+cluster://host:port,host:port")
	}
	for i, host := range list {
		addr, err := parseHost(host)
		if err != nil {
			return fmt.Errorf("address %d of %d: %w", i+1, len(list), err)
		}
		t.addrs = append(t.addrs, addr)
	}
	return nil
}

func parseHost(s string) (string, error) {
	host, port := s, defaultPort
	if strings.LastIndexByte(s, ':') > strings.LastIndexByte(s, ']') {
		var err error
		if host, port, err = net.SplitHostPort(s); err != nil {
			return "", errors.New("it is not host:port; write an IPv6 address in brackets")
		}
	}
	host = strings.Trim(host, "[]")
	if host == "" {
		return "", errors.New("the host is missing")
	}
	if strings.ContainsAny(host, " \t\r\n\"'<>\\") {
		return "", errors.New("the host has characters that no host has")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("the port is not a number from 1 to 65535")
	}
	return net.JoinHostPort(host, port), nil
}

// parsePath reads the database, and in front of it the master's name where there are sentinels.
func (t *Target) parsePath(path string) error {
	if t.kind == sentinel {
		t.master, path, _ = strings.Cut(path, "/")
		if t.master == "" {
			return errors.New("the master's name is missing: write redis+sentinel://host:port,host:port/master")
		}
	}
	if path == "" {
		return nil
	}
	db, err := strconv.ParseUint(path, 10, 16)
	if err != nil {
		return errors.New("the database, behind the /, is not a number from 0 to 65535")
	}
	if t.kind == cluster && db != 0 {
		return errors.New("a Redis Cluster has no database but 0")
	}
	t.db = int(db)
	return nil
}

func (t *Target) parseQuery(query string, secure bool) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the parameters behind ? are malformed; write ?name=value&name=value")
	}
	cafile := values.Get("cafile")
	t.sentinelUser, t.sentinelPassword = values.Get("sentinel_user"), values.Get("sentinel_password")
	for name, v := range values {
		switch {
		case len(v) > 1:
			return fmt.Errorf("parameter %s is given twice", name)
		case name == "cafile", t.kind == sentinel && (name == "sentinel_user" || name == "sentinel_password"):
		default:
			return errors.New("unknown parameter; known are cafile and, for sentinels, sentinel_user and sentinel_password")
		}
	}
	if !secure {
		if cafile != "" {
			return errors.New("cafile is for TLS: write rediss instead of redis")
		}
		return nil
	}
	t.tls, err = tlsConfig(cafile)
	return err
}

// tlsConfig trusts the authorities in a file, or the system's. Host names are those dialled.
func tlsConfig(cafile string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if cafile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(cafile) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("read cafile: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("cafile %s has no certificate in PEM", cafile)
	}
	return config, nil
}
