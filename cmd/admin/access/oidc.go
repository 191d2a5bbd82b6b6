package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// OIDC is an identity provider that tells who somebody is and which groups they are in.
type OIDC struct {
	// Issuer is its URL, below which it has /.well-known/openid-configuration.
	Issuer string
	// ClientID and ClientSecret are what it knows this program by.
	ClientID, ClientSecret string
	// RedirectURL is where it sends browsers back to: the address that they know the console by, and /login/callback.
	RedirectURL string
	// RoleClaim is where an ID token has the groups, a text or a list of texts; dots go into objects, as in
	// realm_access.roles. Defaults to groups.
	RoleClaim string
	// ClassesClaim, when not empty, is where an ID token has the classes that somebody knows of, in the forms of RoleClaim; * is all
	// of them. Who has none there has no access.
	ClassesClaim string
	// Admins, Operators and Viewers are groups whose members have that role, the highest of theirs. Others have no access.
	Admins, Operators, Viewers []string
	// HTTPClient asks the provider. Defaults to one with a timeout of 10 s.
	HTTPClient *http.Client
}

const (
	callbackPath = "/login/callback"
	providerTime = 10 * time.Second
)

func (o *OIDC) validate(base string) error {
	if o == nil {
		return nil
	}
	issuer, err := url.Parse(o.Issuer)
	if err != nil || issuer.Host == "" || issuer.Scheme != "https" && !isLoopback(issuer.Hostname()) {
		return fmt.Errorf("access: the issuer %q is no https URL", o.Issuer)
	}
	redirect, err := url.Parse(o.RedirectURL)
	switch {
	case err != nil || redirect.Host == "" || redirect.Scheme != "https" && !isLoopback(redirect.Hostname()):
		return fmt.Errorf("access: the redirect URL %q is no https URL", o.RedirectURL)
	case redirect.Path != base+callbackPath:
		return fmt.Errorf("access: the redirect URL %q must end in %s", o.RedirectURL, base+callbackPath)
	case o.ClientID == "":
		return errors.New("access: the client id of the identity provider is missing")
	case len(o.Admins)+len(o.Operators)+len(o.Viewers) == 0:
		return errors.New("access: no group has a role, so nobody could log in")
	}
	return nil
}

// provider is the identity provider, once it was reached.
type provider struct {
	oidc *OIDC

	mu     sync.Mutex
	found  *oidc.Provider
	config oauth2.Config
}

func (p *provider) context(ctx context.Context) context.Context {
	client := p.oidc.HTTPClient
	if client == nil {
		client = &http.Client{Timeout: providerTime}
	}
	return oidc.ClientContext(ctx, client)
}

// reach asks the provider where its pages and keys are, the first time.
func (p *provider) reach(ctx context.Context) (*oidc.Provider, *oauth2.Config, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil {
		found, err := oidc.NewProvider(p.context(ctx), p.oidc.Issuer)
		if err != nil {
			return nil, nil, fmt.Errorf("reach the identity provider %s: %w", p.oidc.Issuer, err)
		}
		p.found = found
		p.config = oauth2.Config{
			ClientID: p.oidc.ClientID, ClientSecret: p.oidc.ClientSecret, Endpoint: found.Endpoint(),
			RedirectURL: p.oidc.RedirectURL, Scopes: []string{oidc.ScopeOpenID, "profile", "email"},
		}
	}
	return p.found, &p.config, nil
}

// flow is one login under way: what only the browser that began it knows.
type flow struct{ state, nonce, verifier string }

func newFlow() flow { return flow{random(), random(), oauth2.GenerateVerifier()} }

// begin is where to send the browser.
func (p *provider) begin(ctx context.Context, f flow) (string, error) {
	_, config, err := p.reach(ctx)
	if err != nil {
		return "", err
	}
	return config.AuthCodeURL(f.state, oidc.Nonce(f.nonce), oauth2.S256ChallengeOption(f.verifier)), nil
}

// finish trades the code that the browser came back with for who it is.
func (p *provider) finish(ctx context.Context, f flow, code string) (Person, error) {
	found, config, err := p.reach(ctx)
	if err != nil {
		return Person{}, err
	}
	ctx = p.context(ctx)
	token, err := config.Exchange(ctx, code, oauth2.VerifierOption(f.verifier))
	if err != nil {
		return Person{}, fmt.Errorf("trade the code: %w", err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return Person{}, errors.New("the identity provider gave no ID token")
	}
	id, err := found.Verifier(&oidc.Config{ClientID: p.oidc.ClientID}).Verify(ctx, raw)
	if err != nil {
		return Person{}, fmt.Errorf("verify the ID token: %w", err)
	}
	if id.Nonce != f.nonce {
		return Person{}, errors.New("the ID token is for another login")
	}
	claims := map[string]any{}
	if err := id.Claims(&claims); err != nil {
		return Person{}, fmt.Errorf("read the ID token: %w", err)
	}
	return p.oidc.person(id.Subject, claims)
}

// person is who an ID token tells of.
func (o *OIDC) person(subject string, claims map[string]any) (Person, error) {
	p := Person{Name: subject}
	// Anybody may call themselves anything, but an address was verified.
	if email, ok := claims["email"].(string); ok && claims["email_verified"] == true && CheckName(email) == nil {
		p.Name = email
	}
	err := CheckName(p.Name)
	if err != nil {
		return Person{}, fmt.Errorf("%w: the identity provider names somebody whom we cannot: %w", ErrDenied, err)
	}
	groups := texts(claims, cmp.Or(o.RoleClaim, "groups"))
	in := func(of []string) bool {
		return slices.ContainsFunc(of, func(g string) bool { return slices.Contains(groups, g) })
	}
	switch {
	case in(o.Admins):
		p.Role = Admin
	case in(o.Operators):
		p.Role = Operator
	case in(o.Viewers):
		p.Role = Viewer
	default:
		return Person{}, fmt.Errorf("%w: %s is in no group that has a role here", ErrDenied, p.Name)
	}
	p.Classes, err = o.classes(claims)
	if err != nil {
		return Person{}, fmt.Errorf("%w: %s %w", ErrDenied, p.Name, err)
	}
	return p, nil
}

// allClasses in the claim of classes means all of them.
const allClasses = "*"

// classes are those in their claim; none for all.
func (o *OIDC) classes(claims map[string]any) ([]string, error) {
	if o.ClassesClaim == "" {
		return nil, nil
	}
	classes := slices.DeleteFunc(texts(claims, o.ClassesClaim), func(class string) bool { return class == "" })
	switch {
	case len(classes) == 0: // an empty list would mean all
		return nil, fmt.Errorf("has no class in the claim %s", o.ClassesClaim)
	case slices.Contains(classes, allClasses):
		return nil, nil
	}
	return classes, nil
}

// texts are those in a claim, whose name may itself have dots.
func texts(claims map[string]any, name string) []string {
	value, whole := claims[name]
	if !whole {
		value = inside(claims, strings.Split(name, "."))
	}
	switch value := value.(type) {
	case string:
		return []string{value}
	case []any:
		var list []string
		for _, item := range value {
			if text, ok := item.(string); ok {
				list = append(list, text)
			}
		}
		return list
	}
	return nil
}

func inside(value any, path []string) any {
	for _, name := range path {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return value
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}
