package handlers

import (
	"errors"
	"net/http"
	"slices"
	"strings"
)

// redirected is the call that an answer redirects to, if it does. Method and body follow the rules of net/http: 307 and
// 308 keep both, and after the others all but HEAD becomes a GET without a body.
func (c *call) redirected(a *answer) (*call, error) {
	location := a.header.Get("Location")
	if !isRedirect(a.status) || location == "" {
		return nil, nil //nolint:nilnil // documented: there is none, and nothing wrong
	}
	to, err := c.url.Parse(location)
	if err != nil {
		return nil, c.badRedirect(errors.New("not a valid url"))
	}
	raw := to.String()
	next := *c
	next.header = c.header.Clone()
	if next.url, err = parseURL(&raw); err != nil {
		return nil, c.badRedirect(errors.New(strings.TrimPrefix(err.Error(), `field "url": `)))
	}
	if c.url.Scheme == "https" && next.url.Scheme == "http" {
		return nil, c.badRedirect(errors.New("it leads from https to http"))
	}
	if a.status != http.StatusTemporaryRedirect && a.status != http.StatusPermanentRedirect {
		next.dropBody()
	}
	if c.origin() != next.origin() {
		next.dropCredentials()
	}
	return &next, nil
}

func (c *call) badRedirect(err error) error {
	return permanent(ErrRefused, "%s: target refused: a redirect that cannot be followed: %s", c.what(), err)
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

func (c *call) origin() string { return c.url.Scheme + "://" + c.addr() }

func (c *call) dropBody() {
	if c.method != http.MethodHead {
		c.method = http.MethodGet
	}
	c.body = nil
	for name := range c.header {
		if strings.HasPrefix(name, "Content-") {
			delete(c.header, name)
		}
	}
}

// dropCredentials leaves only headers that never are any: an API key can be in a header of any name.
func (c *call) dropCredentials() {
	harmless := []string{"Accept", "Accept-Encoding", "Accept-Language", "Content-Encoding", "Content-Language", "Content-Type", "User-Agent"}
	for name := range c.header {
		if !slices.Contains(harmless, name) || slices.Contains(c.secretHeaders, name) {
			delete(c.header, name)
		}
	}
}
