// Package natsconn connects to NATS the way its users do: by URLs, credentials, nkeys, certificates, or a context of the
// nats command line.
package natsconn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/natscontext"
)

// Options say how to connect. With a Context the other fields add to what it says, but URL, which must be empty.
type Options struct {
	// URL is one or more addresses, separated by commas. Defaults to nats://127.0.0.1:4222.
	URL string
	// Context is the name of a context of the nats command line, or the absolute path of its file.
	Context string
	// Files: credentials (JWT and nkey), nkey seed, authorities, and a certificate with its key.
	Creds, NKey, CA, Cert, Key string
	// Name is how the server lists the connection.
	Name string
	// Patience is how long NATS may be away at the start. Defaults to 30 s.
	Patience time.Duration
	// Unbuffered makes publishing an error while the connection is lost; else it is kept and sent afterwards.
	Unbuffered bool
	Log        *slog.Logger
}

// Conn is a connection that is made anew for ever when it is lost.
type Conn struct {
	*nats.Conn
	JetStream jetstream.JetStream
}

// ErrOptions marks options that cannot be used.
var ErrOptions = errors.New("options for nats")

// ErrAway says that NATS could not be reached in time.
var ErrAway = errors.New("nats is away")

const (
	defaultPatience = 30 * time.Second
	reconnectWait   = 500 * time.Millisecond
	// logEvery bounds how often waiting at the start is told, logSeldom what keeps a lost connection from being made again.
	logEvery  = 5 * time.Second
	logSeldom = 30 * time.Second
)

// Connect connects. It waits for a NATS that is away for as long as Options.Patience; a server that refuses us is an error at
// once. The errors wrap ErrOptions, nats.ErrAuthorization or ErrAway.
func Connect(ctx context.Context, o Options) (*Conn, error) {
	var c cause
	more, err := o.options(&c)
	if err != nil {
		return nil, err
	}
	if err := checkSchemes(o.URL); err != nil {
		return nil, err
	}
	var settings natscontext.Settings
	var nc *nats.Conn
	switch {
	case o.Context != "" && o.URL != "":
		return nil, fmt.Errorf("%w: there is both a URL and a context; one will do", ErrOptions)
	case o.Context != "":
		nc, settings, err = natscontext.Connect(o.Context, more...)
	case o.URL != "":
		nc, err = nats.Connect(o.URL, more...)
	default:
		nc, err = nats.Connect(nats.DefaultURL, more...)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, unquoted(err))
	}
	if err := o.await(ctx, nc, &c); err != nil {
		nc.Close()
		return nil, err
	}
	c.connected.Store(true)
	js, err := jetStream(nc, settings)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return &Conn{nc, js}, nil
}

func jetStream(nc *nats.Conn, s natscontext.Settings) (jetstream.JetStream, error) {
	switch {
	case s.JSDomain != "":
		return jetstream.NewWithDomain(nc, s.JSDomain)
	case s.JSAPIPrefix != "":
		return jetstream.NewWithAPIPrefix(nc, s.JSAPIPrefix)
	}
	return jetstream.New(nc)
}

func (o Options) options(c *cause) ([]nats.Option, error) {
	log := o.Log
	more := []nats.Option{
		nats.Name(o.Name), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.IgnoreAuthErrorAbort(), // else the second refusal would be the end, as while credentials are changed
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("lost nats", slog.String("error", err.Error()))
			}
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			if c.note(err) {
				log.Warn("cannot connect to nats", slog.String("error", err.Error()))
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("connected to nats again", slog.String("address", address(nc)))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("nats", slog.String("error", err.Error()))
		}),
	}
	if o.Unbuffered {
		more = append(more, nats.ReconnectBufSize(-1))
	}
	if o.Creds != "" {
		more = append(more, nats.UserCredentials(o.Creds))
	}
	if o.NKey != "" {
		key, err := nats.NkeyOptionFromSeed(o.NKey)
		if err != nil {
			return nil, fmt.Errorf("%w: nkey seed %s: %w", ErrOptions, o.NKey, err)
		}
		more = append(more, key)
	}
	if o.CA != "" {
		more = append(more, nats.RootCAs(o.CA))
	}
	if (o.Cert == "") != (o.Key == "") {
		return nil, fmt.Errorf("%w: a certificate needs its key, and the other way round", ErrOptions)
	}
	if o.Cert != "" {
		more = append(more, nats.ClientCert(o.Cert, o.Key))
	}
	return more, nil
}

// await waits until the connection is made.
func (o Options) await(ctx context.Context, nc *nats.Conn, c *cause) error {
	patience := o.Patience
	if patience == 0 {
		patience = defaultPatience
	}
	begin := time.Now()
	logged := begin.Add(-logEvery)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := nc.LastError()
		c.note(err)
		waited := time.Since(begin)
		switch {
		case nc.IsConnected():
			return nil
		case refused(err):
			return fmt.Errorf("nats does not let us in: %w", err)
		case waited > patience:
			return fmt.Errorf("%w: gave up on %s after %v: %w", ErrAway, strings.Join(nc.Servers(), ", "), waited.Round(time.Second), c.why())
		case waited > logEvery/10 && time.Since(logged) >= logEvery:
			logged = time.Now()
			o.Log.Warn("waiting for nats", slog.String("address", strings.Join(nc.Servers(), ", ")), slog.String("error", c.why().Error()))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for nats: %w", ctx.Err())
		}
	}
}

func refused(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, nats.ErrAccountAuthExpired)
}
