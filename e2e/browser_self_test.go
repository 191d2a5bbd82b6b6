package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// grumble collects what a tab would fail its test for.
type grumble struct {
	testing.TB
	said []string
}

func (g *grumble) Errorf(format string, args ...any) {
	g.said = append(g.said, fmt.Sprintf(format, args...))
}

// TestBrowserComplains: what the browser tests rest on. A page that is wrong in every way that they look for is told of.
func TestBrowserComplains(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; connect-src 'self'")
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprint(w, `<title>x</title><script src="/script.js"></script><script>0</script><input><pre>`+strings.Repeat("wide ", 100))
		case "/script.js":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = fmt.Fprint(w, `console.error("grumble"); fetch("/missing"); setTimeout(() => { throw new Error("thrown") }, 0)`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	said := &grumble{TB: t}
	tab := newBrowser(t).tab(said, phone)
	tab.open(server.URL)
	within(t, patience, func() bool {
		said.said = nil
		tab.judge()
		return len(said.said) >= 4
	})
	tab.accessible()
	all := strings.Join(said.said, "\n")
	for _, want := range []string{"grumble", "thrown", "missing", "Content Security Policy", "critical, label", "px too wide"} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing is said of %q:\n%s", want, all)
		}
	}
	tab.problems = nil
}
