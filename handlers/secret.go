package handlers

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Secrets are values that jobs name and only workers know. A secret called stripe-live is looked for as SPOUT_SECRET_STRIPE_LIVE
// in the environment and then as a file stripe-live in the directories, in their order. A file is read each time, so that a
// changed one counts at once. The zero value has none.
type Secrets struct {
	// Getenv reads the environment; nil is an empty one.
	Getenv func(string) string
	// Dirs hold one file per secret, such as what systemd names in CREDENTIALS_DIRECTORY. Empty ones are skipped.
	Dirs []string
}

const (
	minSecret  = 4 // bytes: a shorter one could not be masked without harm
	maxSecret  = 8 << 10
	maxSecrets = 16 // in one job
)

var (
	secretName  = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	placeholder = regexp.MustCompile(`\{\{secret:([a-z0-9][a-z0-9_-]{0,63})\}\}`)
)

// meant is the beginning of what somebody takes for a placeholder, who would wonder why it is sent as it is.
var meant = regexp.MustCompile(`(?i)\{\{\s*secret\b`)

// Lookup returns the value of a secret, without the line break that a file may end with. No error has the value in it.
func (s Secrets) Lookup(name string) (string, error) {
	if !secretName.MatchString(name) {
		return "", fmt.Errorf("secret %q: the name is not [a-z0-9][a-z0-9_-]{0,63}", clip(name, maxName))
	}
	value, err := s.find(name)
	switch {
	case err != nil:
		return "", fmt.Errorf("secret %q: %w", name, err)
	case value == "":
		return "", fmt.Errorf("secret %q is not on this worker: set %s, or put a file %s into its --secrets-dir or $CREDENTIALS_DIRECTORY",
			name, secretVariable(name), name)
	case len(value) < minSecret || len(value) > maxSecret:
		return "", fmt.Errorf("secret %q has %d bytes, not between %d and %d", name, len(value), minSecret, maxSecret)
	}
	return value, nil
}

func secretVariable(name string) string {
	return "SPOUT_SECRET_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

func (s Secrets) find(name string) (string, error) {
	if s.Getenv != nil {
		if value := s.Getenv(secretVariable(name)); value != "" {
			return value, nil
		}
	}
	for _, dir := range s.Dirs {
		if dir == "" {
			continue
		}
		value, err := readSecret(filepath.Join(dir, name)) // a name has neither dots nor slashes
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return value, err
		}
	}
	return "", nil
}

// readSecret reads a little more than a secret may have. Its error does not tell where the file is.
func readSecret(path string) (string, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names the directory, and the name is checked
	if err != nil {
		return "", bare(err)
	}
	defer file.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(file, maxSecret+3))
	if err != nil {
		return "", bare(err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

func bare(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// checkPlaceholders refuses a header value that only looks as if it held a secret.
func checkPlaceholders(value string) error {
	found := len(placeholder.FindAllStringIndex(value, maxSecrets+1))
	switch {
	case found > maxSecrets:
		return fmt.Errorf("more than %d secrets", maxSecrets)
	case len(meant.FindAllStringIndex(value, -1)) != found:
		return errors.New("a secret that is not written {{secret:name}}, the name being [a-z0-9][a-z0-9_-]{0,63}")
	}
	return nil
}

// resolve puts the secrets that c names into its headers. What the class does not list is refused for good; what this worker
// does not have is a failed attempt, since it can be mended.
func (t target) resolve(c *call, secrets Secrets) error {
	for name, values := range c.header {
		if !placeholder.MatchString(values[0]) {
			continue
		}
		if c.url.Scheme != "https" && !slices.Contains(t.schemes, c.url.Scheme) {
			return permanent(ErrRefused, "%s: target refused: a secret is not sent over %s, unless class %q lists it in http: {schemes: [...]}",
				c.what(), c.url.Scheme, t.class)
		}
		value, err := t.expand(c, values[0], secrets)
		if err != nil {
			return err
		}
		c.header[name] = []string{value}
		c.secretHeaders = append(c.secretHeaders, name)
	}
	return nil
}

func (t target) expand(c *call, value string, secrets Secrets) (string, error) {
	var failed error
	value = placeholder.ReplaceAllStringFunc(value, func(found string) string {
		name := placeholder.FindStringSubmatch(found)[1]
		// Hosts are asked for again, since the settings may come from a class that was checked by an older program.
		if !slices.Contains(t.secrets, name) || len(t.hosts) == 0 {
			failed = permanent(ErrRefused, "%s: secret %q refused: it is not in http: {secrets: [...]} of class %q, with hosts beside it",
				c.what(), name, t.class)
			return ""
		}
		secret, err := secrets.Lookup(name)
		if err == nil && !isHeaderValue(secret) {
			err = fmt.Errorf("secret %q has a control character", name)
		}
		if err != nil {
			failed = fmt.Errorf("%s: %w", c.what(), err)
			return ""
		}
		c.hide(secret, "[secret:"+name+"]")
		return secret
	})
	return value, failed
}

// hide has a secret masked in all that is kept of the answer and in errors, in the forms that a service may echo it in.
func (c *call) hide(secret, mask string) {
	quoted, _ := json.Marshal(secret) //nolint:errchkjson // a string always marshals
	forms := []string{
		secret, strings.Trim(string(quoted), `"`), strings.Trim(fmt.Sprintf("%q", secret), `"`), url.QueryEscape(secret), url.PathEscape(secret),
		(&url.URL{Path: "/" + secret}).EscapedPath()[1:], html.EscapeString(secret),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte(secret)),
	}
	for _, form := range forms {
		if !slices.Contains(c.hidden, form) {
			c.hidden = append(c.hidden, form, mask)
			c.longestHidden = max(c.longestHidden, len(form))
		}
	}
}

// hideSecrets returns s with every secret of the call masked.
func (c *call) hideSecrets(s string) string {
	if len(c.hidden) == 0 {
		return s
	}
	return strings.NewReplacer(c.hidden...).Replace(s)
}
