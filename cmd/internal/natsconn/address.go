package natsconn

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
)

// Address is that of the server, without the user, password or token that may be in it; empty while not connected.
func (c *Conn) Address() string { return address(c.Conn) }

// address leaves out more than nats.go's own redaction does, which shows a token.
func address(nc *nats.Conn) string {
	u, err := url.Parse(nc.ConnectedUrl())
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// errAddress does not quote what could not be read, nor say at what it failed: a password may be in it.
var errAddress = errors.New("an address cannot be read; write it like nats://user:password@host:4222, " +
	"with what is special in the password percent-encoded")

// unquoted takes the text of a URL out of an error.
func unquoted(err error) error {
	if _, ok := errors.AsType[*url.Error](err); ok {
		return errAddress
	}
	return err
}

// checkSchemes refuses addresses that nats.go would try in vain.
func checkSchemes(addresses string) error {
	for a := range strings.SplitSeq(addresses, ",") {
		scheme, _, ok := strings.Cut(strings.TrimSpace(a), "://")
		if known := []string{"nats", "tls", "ws", "wss"}; ok && !slices.Contains(known, scheme) {
			return fmt.Errorf("%w: the scheme of an address is none of %s", ErrOptions, strings.Join(known, ", "))
		}
	}
	return nil
}
