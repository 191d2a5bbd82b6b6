// Package client speaks the HTTP API of an admin serve. It takes and returns the types of package queue, and its errors are
// those of the SDK for errors.Is and errors.As, so that a program can go through the API where it has no way to Redis.
//
// Reading and submitting are repeated a few times when a server does not answer: submissions have an id, chosen before they
// are first sent, and stay one job. Everything else is sent once; when its reply is lost the error wraps [queue.ErrUnknown].
package client

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// Options of [New]. The zero value works with a server that asks for no token.
type Options struct {
	// Token that admin token printed; empty for a server on loopback without authentication.
	Token string
	// PlainHTTP lets the token go to another machine without TLS, where whoever carries it can read it.
	PlainHTTP bool
	// HTTPClient makes the connections. Defaults to one of its own. Redirects are not followed, whatever it says.
	HTTPClient *http.Client
	// UserAgent of requests. Defaults to "spout-client".
	UserAgent string
}

// Client is one program's access to the API of one server. It is safe for concurrent use.
type Client struct {
	base  string // without a slash at the end
	token string
	agent string
	http  *http.Client
}

// New returns a client of the server at an address, such as https://spout.example.com or http://127.0.0.1:8080/base. It asks
// the server nothing. The error says what is wrong with the address, or that the token would be sent in the clear.
func New(address string, o Options) (*Client, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("address of the API: %w", errors.Unwrap(err)) // without the address, which may hold a secret
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("address of the API: %q is not http://host or https://host", u.Redacted())
	case u.User != nil:
		return nil, errors.New("address of the API: a name and password in it are not used; give a token")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("address of the API: %q goes on behind the path", u.Redacted())
	case o.Token != "" && u.Scheme == "http" && !o.PlainHTTP && !isLoopback(u.Hostname()):
		return nil, fmt.Errorf("the token would go to %s in the clear: use https, or allow plain http where the way there is safe", u.Host)
	case strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("the token has characters that no token has")
	}
	return &Client{
		base: strings.TrimSuffix(u.String(), "/"), token: o.Token, agent: cmp.Or(o.UserAgent, "spout-client"), http: withoutRedirects(o.HTTPClient),
	}, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// withoutRedirects keeps the token from going elsewhere, and a POST from becoming a GET.
func withoutRedirects(own *http.Client) *http.Client {
	var copied http.Client
	if own != nil {
		copied = *own
	}
	copied.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &copied
}
