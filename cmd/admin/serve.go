package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/urfave/cli/v3"
	"golang.org/x/sync/errgroup"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/console"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/cmd/internal/natsconn"
	"github.com/spout-queue/spout/cmd/internal/ops"
	"github.com/spout-queue/spout/cmd/internal/tracing"
	"github.com/spout-queue/spout/queue"
)

func serveCommand(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "serve", Usage: "serve the HTTP API and the dashboard, until SIGTERM",
		Description: `Without --tokens and --oidc-issuer there is no authentication: everybody on this machine may do everything, and --addr must be
a loopback address. Any other address takes one of the two. Tokens are made with admin token new; the file of --tokens is read
again when it changes, and on SIGHUP.

The API is described by /openapi.json and documented at /docs.`,
		Flags: slices.Concat(serveFlags(), natsconn.Flags("not looked at"), natsconn.StreamFlags(), ops.Flags()),
		Run:   serve,
	})
}

func serveFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "addr", Value: "127.0.0.1:8080", Usage: "`HOST:PORT` to listen on"},
		&cli.StringFlag{Name: "base", DefaultText: "none", Usage: "`PATH` that everything is below, like /spout"},
		&cli.StringSliceFlag{Name: "host", DefaultText: "that of --addr", Usage: "`NAMES` that browsers and programs know this server by, besides loopback names and its address"},
		&cli.StringFlag{Name: "tokens", DefaultText: "none", Usage: "`FILE` of people, their roles and the hashes of their tokens, YAML"},
		&cli.StringFlag{Name: "tls-cert", DefaultText: "none", Usage: "`FILE` of a certificate and what leads to its authority, PEM"},
		&cli.StringFlag{Name: "tls-key", DefaultText: "none", Usage: "`FILE` of its key, PEM"},
		&cli.StringSliceFlag{Name: "trusted-proxy", DefaultText: "none", Usage: "`NETWORKS` of proxies, as in 10.0.0.0/8, whose X-Forwarded-For and X-Forwarded-Proto are believed"},
		&cli.StringFlag{Name: "oidc-issuer", DefaultText: "none", Usage: "`URL` of an identity provider that people log in with"},
		&cli.StringFlag{Name: "oidc-client-id", Usage: "`ID` that it knows this server by"},
		&cli.StringFlag{Name: "oidc-client-secret-file", DefaultText: "none", Usage: "`FILE` with the secret that it knows this server by"},
		&cli.StringFlag{Name: "oidc-redirect-url", Usage: "`URL` of this server as browsers know it, with /login/callback behind it"},
		&cli.StringFlag{Name: "oidc-role-claim", Value: "groups", Usage: "`NAME` of the groups in an ID token; dots go into objects"},
		&cli.StringFlag{Name: "oidc-classes-claim", DefaultText: "none: all classes", Usage: "`NAME` of the classes in an ID token that somebody knows of; * there is all"},
		&cli.StringSliceFlag{Name: "oidc-admin", Usage: "`GROUPS` whose members are admins"},
		&cli.StringSliceFlag{Name: "oidc-operator", Usage: "`GROUPS` whose members are operators"},
		&cli.StringSliceFlag{Name: "oidc-viewer", Usage: "`GROUPS` whose members are viewers; who is in none of the three has no access"},
	}
}

// garbage is GOGC, unless the environment has one: the heap is a few megabytes, and by default it would be swept a hundred times a
// second under load.
const garbage = 400

// serve runs until ctx ends.
func serve(ctx context.Context, s *command.Session) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	if err := needsRedis(s); err != nil {
		return err
	}
	who, err := whoMayAsk(s)
	if err != nil {
		return err
	}
	guard, err := access.NewGuard(who)
	if err != nil {
		return exit.Configf("%w", err)
	}
	certificate, err := tlsConfig(s)
	if err != nil {
		return err
	}
	listener, err := listen(ctx, s, who.Local)
	if err != nil {
		return err
	}
	defer listener.Close() //nolint:errcheck // the server has closed it, or has not begun
	shown, err := ops.Open(ctx, s, "admin")
	if err != nil {
		return err
	}
	defer shown.Close(ctx)
	nats, err := newBroker(ctx, s)
	if err != nil {
		return err
	}
	defer nats.close()
	s.Door = "http"
	client, err := s.Open(ctx)
	if err != nil {
		return err
	}
	served, err := console.New(console.Options{
		Client: client, Base: who.Base, Guard: guard, Hosts: hostNames(s), Log: s.Log,
		Trace: traceOf(shown.Trace), NATS: nats.watch(),
	})
	if err != nil {
		return exit.Configf("%w", err)
	}
	shown.Watch(ops.Probes{Ready: func() error { return answers(ctx, client) }})
	if err := introduce(ctx, s, listener, who, certificate != nil); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return served.Serve(ctx, listener, certificate) })
	group.Go(func() error { served.Run(ctx); return nil })
	group.Go(func() error { reload(ctx, who.Tokens, s.Log); return nil })
	return group.Wait()
}

// traceOf is nil when nobody wants traces.
func traceOf(traced *tracing.Tracing) func(context.Context, *queue.Job) (context.Context, func(queue.Receipt, error)) {
	if !traced.On() {
		return nil
	}
	return traced.Submit
}

// answers tells whether Redis does.
func answers(ctx context.Context, client *queue.Client) error {
	ctx, cancel := context.WithTimeout(ctx, queue.CollectTime)
	defer cancel()
	_, err := client.Now(ctx)
	return err
}

// whoMayAsk reads the flags about people.
func whoMayAsk(s *command.Session) (access.Options, error) {
	who := access.Options{Base: strings.TrimSuffix(s.Flags.String("base"), "/"), Log: s.Log}
	for _, text := range s.Flags.StringSlice("trusted-proxy") {
		network, err := parseNetwork(text)
		if err != nil {
			return who, s.Wrong("trusted-proxy", err)
		}
		who.Trusted = append(who.Trusted, network)
	}
	var err error
	if file := s.Flags.String("tokens"); file != "" {
		if who.Tokens, err = access.ReadTokens(file, s.Log); err != nil {
			return who, exit.Configf("%w", err)
		}
	}
	who.OIDC, err = identityProvider(s)
	who.Local = who.Tokens == nil && who.OIDC == nil
	return who, err
}

// parseNetwork reads a network, or one address.
func parseNetwork(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.Prefix(ip.BitLen())
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return network, fmt.Errorf("%q is no network; write it like 10.0.0.0/8", text)
	}
	return network, nil
}

// identityProvider reads the flags about it; nil without them.
func identityProvider(s *command.Session) (*access.OIDC, error) {
	f := s.Flags
	if f.String("oidc-issuer") == "" {
		for _, name := range []string{"oidc-client-id", "oidc-client-secret-file", "oidc-redirect-url", "oidc-classes-claim"} {
			if f.String(name) != "" {
				return nil, s.Wrong(name, errors.New("it means nothing without --oidc-issuer"))
			}
		}
		return nil, nil //nolint:nilnil // documented: none, and nothing wrong
	}
	provider := &access.OIDC{
		Issuer: f.String("oidc-issuer"), ClientID: f.String("oidc-client-id"), RedirectURL: f.String("oidc-redirect-url"),
		RoleClaim: f.String("oidc-role-claim"), ClassesClaim: f.String("oidc-classes-claim"),
		Admins: f.StringSlice("oidc-admin"), Operators: f.StringSlice("oidc-operator"), Viewers: f.StringSlice("oidc-viewer"),
	}
	if file := f.String("oidc-client-secret-file"); file != "" {
		secret, err := os.ReadFile(file) //nolint:gosec // the operator names it
		if err != nil {
			return nil, s.Wrong("oidc-client-secret-file", err)
		}
		provider.ClientSecret = strings.TrimSpace(string(secret))
	}
	return provider, nil
}

// tlsConfig reads the certificate; nil without one. The files are read again for new connections when they have changed, as
// certificates that are renewed every few weeks do.
func tlsConfig(s *command.Session) (*tls.Config, error) {
	cert, key := s.Flags.String("tls-cert"), s.Flags.String("tls-key")
	switch {
	case cert == "" && key == "":
		return nil, nil //nolint:nilnil // documented: none, and nothing wrong
	case cert == "":
		return nil, s.Wrong("tls-key", errors.New("it means nothing without --tls-cert"))
	case key == "":
		return nil, s.Wrong("tls-cert", errors.New("it means nothing without --tls-key"))
	}
	pair := &keyPair{cert: cert, key: key, log: s.Log}
	if err := pair.read(); err != nil {
		return nil, s.Wrong("tls-cert", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.certificate}, nil
}

// listen opens the address. What anybody can reach takes authentication.
func listen(ctx context.Context, s *command.Session, local bool) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", s.Flags.String("addr"))
	if err != nil {
		return nil, s.Wrong("addr", err)
	}
	if at, ok := l.Addr().(*net.TCPAddr); local && (!ok || !at.IP.IsLoopback()) {
		_ = l.Close()
		return nil, exit.Configf("--addr %s can be reached from elsewhere, and without authentication everybody could do everything: give --tokens FILE "+
			"(see admin token new) or --oidc-issuer URL, or listen on a loopback address like 127.0.0.1:8080", s.Flags.String("addr"))
	}
	return l, nil
}

// hostNames are those of --host, and that of --addr.
func hostNames(s *command.Session) []string {
	names := s.Flags.StringSlice("host")
	if host, _, err := net.SplitHostPort(s.Flags.String("addr")); err == nil && host != "" {
		names = append(names, host)
	}
	return names
}

// introduce says where it is, and who may ask.
func introduce(ctx context.Context, s *command.Session, l net.Listener, who access.Options, secure bool) error {
	scheme, people := "http", "everybody on this machine, without authentication"
	if secure {
		scheme = "https"
	}
	switch {
	case who.Tokens != nil && who.OIDC != nil:
		people = "who has a token or an account"
	case who.Tokens != nil:
		people = "who has a token"
	case who.OIDC != nil:
		people = "who has an account at " + who.OIDC.Issuer
	}
	url := fmt.Sprintf("%s://%s%s/", scheme, reachedBy(l.Addr(), s.Flags.StringSlice("host")), who.Base)
	if at, ok := l.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() && !secure && len(who.Trusted) == 0 {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "tokens travel in plain text: use --tls-cert and --tls-key, or a proxy with TLS and --trusted-proxy")
	}
	return errors.Join(
		s.Linef("serving %s, for %s", url, people),
		s.Object(map[string]any{"url": url, "authentication": !who.Local}),
	)
}

// reachedBy is an address as a browser can ask for it: one that stands for all of them is none of those that are answered.
func reachedBy(at net.Addr, hosts []string) string {
	tcp, ok := at.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return at.String()
	}
	return net.JoinHostPort(append(slices.Clone(hosts), "localhost")[0], strconv.Itoa(tcp.Port))
}

// reload reads the tokens again on SIGHUP.
func reload(ctx context.Context, tokens *access.Tokens, log *slog.Logger) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
		}
		if tokens == nil {
			continue
		}
		if err := tokens.Reload(); err != nil {
			log.LogAttrs(ctx, slog.LevelError, "the changed file of tokens is not used; those read before still count", slog.Any("error", err))
			continue
		}
		log.LogAttrs(ctx, slog.LevelInfo, "read the file of tokens")
	}
}
