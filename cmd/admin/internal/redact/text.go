package redact

import (
	"regexp"
	"strings"
)

var (
	// userinfo is what stands before the host of a URL, up to the last @: passwords have some, too.
	userinfo = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/?#"'<>]*@`)
	// parameter is a pair in a query or in a form.
	parameter = regexp.MustCompile(`(^|[?&;\s"'])([A-Za-z0-9_.%\[\]-]{1,64})=([^&;\s"'<>#]+)`)
	// assigned is a pair whose value has quotes.
	assigned = regexp.MustCompile(`(^|[?&;,\s({\["'])([A-Za-z0-9_.-]{1,64})(\s*=\s*)("[^"\r\n]+|'[^'\r\n]+)`)
	// field is one of a JSON object in a text, which may be cut off; escaped is the same in a string of it.
	field   = regexp.MustCompile(`("([A-Za-z0-9_. -]{1,64})"\s*:\s*)("(?:[^"\\]|\\.)+|[0-9][0-9.]*)`)
	escaped = regexp.MustCompile(`(\\"([A-Za-z0-9_. -]{1,64})\\"\s*:\s*\\")((?:[^"\\]|\\[^"])+)`)
	// labelled is a line or a word of settings, with names that nothing else has.
	labelled = regexp.MustCompile(`(?i)\b((?:[a-z0-9]+[-_])*(?:password|passwd|passphrase|api[-_]?key|access[-_]?key|secret[-_]?key|` +
		`(?:private|access|auth|refresh|session)[-_]token|client[-_]secret))(\s*:\s*)([^\s"',;]+)`)
	// scheme is a credential as in a header Authorization.
	scheme = regexp.MustCompile(`(?i)\b(bearer|basic|token|digest|negotiate)(\s+)([A-Za-z0-9._~+/=-]{8,})`)
	// word is what stands behind such a scheme where people write about it.
	word = regexp.MustCompile(`^[A-Z]?[a-z-]+[.]?$`)
	// header is a line of headers in a text.
	header = regexp.MustCompile(`(?im)\b((?:proxy-)?authorization|(?:set-)?cookie|x-[a-z-]*(?:key|token|secret))(\s*[:=]\s*)([^\r\n"',]+)`)
	// shape is a token by how it looks: a JWT, or one of those whose makers gave them a beginning to be known by, as ours have.
	shape = regexp.MustCompile(`\b(?:eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)*|A[KS]IA[0-9A-Z]{16}\b|AIza[A-Za-z0-9_-]{35}|` +
		`gh[opsru]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,}|xox[abeoprs]-[A-Za-z0-9-]{10,}|` +
		`[rs]k_(?:live|test)_[A-Za-z0-9]{10,}|sk-[A-Za-z0-9_-]{32,}|whsec_[A-Za-z0-9+/=]{16,}|npm_[A-Za-z0-9]{36}|spout_[A-Za-z0-9_-]{43})`)
	// private is a private key in PEM, which may be cut off.
	private = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)
	// placeholder is a secret by its name.
	placeholder = regexp.MustCompile(`\{\{\s*secret:[^{}]*\}\}`)
	// harmless is what may stand around a placeholder, or around the mark.
	harmless = regexp.MustCompile(`^(?i)\s*(bearer|basic|token|digest|apikey)?\s*$`)
)

// Text returns a text without its secrets, and how many there were.
func Text(text string) (string, int) {
	found := 0
	replace := func(pattern *regexp.Regexp, by func(groups []string) string) {
		matches := pattern.FindAllStringSubmatchIndex(text, -1)
		if matches == nil {
			return
		}
		var out strings.Builder
		groups, end := make([]string, pattern.NumSubexp()+1), 0
		for _, at := range matches {
			for i := range groups {
				groups[i] = text[max(0, at[2*i]):max(0, at[2*i+1])] // empty for one that is not there
			}
			now := by(groups)
			if now != groups[0] {
				found++
			}
			out.WriteString(text[end:at[0]])
			out.WriteString(now)
			end = at[1]
		}
		out.WriteString(text[end:])
		text = out.String()
	}
	mark := func([]string) string { return Mark }
	pair := func(g []string) string { return g[1] + g[2] + secret(g[3]) }
	named := func(g []string) string {
		if !telling(g[2]) || common(g[2]) {
			return g[0]
		}
		if text, quoted := strings.CutPrefix(g[3], `"`); quoted {
			return g[1] + `"` + secret(text)
		}
		return g[1] + secret(g[3])
	}
	if strings.Contains(text, "PRIVATE KEY-----") {
		replace(private, mark)
	}
	replace(shape, mark)
	replace(userinfo, func(g []string) string { return g[1] + Mark + "@" })
	replace(header, pair)
	replace(scheme, func(g []string) string {
		if !strings.EqualFold(g[1], "bearer") && word.MatchString(g[3]) {
			return g[0]
		}
		return g[1] + g[2] + Mark
	})
	if strings.Contains(text, `":`) || strings.Contains(text, `" :`) {
		replace(field, named)
		replace(escaped, named)
	}
	replace(labelled, pair)
	replace(assigned, func(g []string) string {
		if telling(g[2]) && !common(g[2]) {
			return g[1] + g[2] + g[3] + g[4][:1] + secret(g[4][1:])
		}
		return g[0]
	})
	replace(parameter, func(g []string) string {
		if telling(g[2]) {
			return g[1] + g[2] + "=" + secret(g[3])
		}
		return g[0]
	})
	return text, found
}

// common tells of a name that in a text is hardly ever that of a secret: what services put into their errors.
func common(name string) bool {
	return strings.EqualFold(name, "key") || strings.EqualFold(name, "code")
}

// secret is what is shown of a value that is one.
func secret(value string) string {
	rest := placeholder.ReplaceAllString(strings.ReplaceAll(value, Mark, ""), "")
	if rest != value && harmless.MatchString(rest) {
		return value
	}
	return Mark
}
