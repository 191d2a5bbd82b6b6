package console

import (
	"maps"
	"net/http"
	"strings"
)

// policy is all that pages may do: load and ask what comes from this very server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// safeHeaders tells browsers what pages may not do. Whoever serves files with a hash in their name may say that they keep.
func safeHeaders(next http.Handler) http.Handler {
	// All answers share the values: to set or add another makes a new list.
	safe := http.Header{
		"Content-Security-Policy":      {policy},
		"X-Content-Type-Options":       {"nosniff"},
		"X-Frame-Options":              {"DENY"}, // for browsers that do not know frame-ancestors
		"Referrer-Policy":              {"no-referrer"},
		"Cross-Origin-Opener-Policy":   {"same-origin"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
		"Permissions-Policy":           {"camera=(), geolocation=(), microphone=(), payment=(), usb=()"},
		"Cache-Control":                {"no-store"},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), safe)
		if r.TLS != nil {
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}

// sameSite refuses changes that a page of another site asks for.
func (c *Console) sameSite(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.refuse(w, r, crossSite) }))
	return protection.Handler(next)
}

// rightHost refuses requests for hosts that this is not.
func (c *Console) rightHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.hosts.allow(r) && (r.URL.Host == "" || strings.EqualFold(r.URL.Host, r.Host)) {
			next.ServeHTTP(w, r)
			return
		}
		c.refuse(w, r, wrongHost)
	})
}
