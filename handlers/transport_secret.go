package handlers

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// checkCredentials refuses a request that would put a credential into Redis. It knows
// the usual places only: the headers and query parameters that are made for it.
func checkCredentials(req *http.Request) error {
	const instead = "which would be kept in Redis with the job; have it read {{secret:NAME}} and give the worker " +
		"the secret of that name, or set AllowCredentials of the transport"
	for name, values := range req.Header {
		if !carriesCredential(name) {
			continue
		}
		for _, v := range values {
			if !namesSecret(v) {
				return fmt.Errorf("the header %s holds a credential, %s", clip(name, maxName), instead)
			}
		}
	}
	if req.URL.User != nil && !namesSecret(req.Header.Get("Authorization")) {
		return fmt.Errorf("the url holds a password, %s, in a header Authorization", instead)
	}
	for name := range req.URL.Query() {
		if isCredentialParameter(name) {
			return fmt.Errorf("the url's parameter %q is made for a credential, which would be kept in Redis with the job; "+
				"send it in a header that reads {{secret:NAME}}, or set AllowCredentials of the transport", clip(name, maxName))
		}
	}
	return nil
}

// carriesCredential tells whether a header is made for a credential, by its name.
func carriesCredential(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "authorization", "proxy-authorization", "cookie", "token", "apikey", "api-key", "x-api-key":
		return true
	}
	for _, end := range []string{"-token", "-secret", "-password", "-apikey", "-api-key", "-access-key", "-auth-key"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// isCredentialParameter tells the same of a query parameter.
func isCredentialParameter(name string) bool {
	switch strings.ToLower(name) {
	case "access_token", "api_key", "apikey", "api-key", "auth_token", "client_secret", "password", "secret", "token":
		return true
	}
	return false
}

// secretOnly is what a credential's header may read: the name of a secret, by itself,
// after a scheme (Bearer, token, …), or in a cookie.
var secretOnly = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_.-]*[ =])?\{\{secret:[a-z0-9][a-z0-9_-]{0,63}\}\}$`)

func namesSecret(value string) bool {
	for part := range strings.SplitSeq(value, ";") {
		if !secretOnly.MatchString(strings.TrimSpace(part)) {
			return false
		}
	}
	return true
}
