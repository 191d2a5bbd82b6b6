package httpmeter

import "strings"

// maxField is the longest RateLimit field that is read, in bytes.
const maxField = 8 << 10

// limitItem is an item of RateLimit.
type limitItem struct {
	name      string
	remaining int64
	window    int64 // seconds, -1 when it has none
}

// policyItem is an item of RateLimit-Policy.
type policyItem struct {
	unit   string
	window int64 // seconds, -1 when it has none
}

// parseRateLimit reads a RateLimit field. A malformed one, or one that is not there, is not ok.
func parseRateLimit(lines []string) ([]limitItem, bool) {
	items, ok := parseList(lines)
	if !ok {
		return nil, false
	}
	limits := make([]limitItem, len(items))
	for i, it := range items {
		l := limitItem{name: it.text, window: -1}
		r, has := it.params["r"]
		if it.kind != sfString && it.kind != sfToken || !has || r.kind != sfInteger || r.number < 0 {
			return nil, false
		}
		l.remaining = r.number
		if t, has := it.params["t"]; has {
			if t.kind != sfInteger || t.number < 0 {
				return nil, false
			}
			l.window = t.number
		}
		limits[i] = l
	}
	return limits, true
}

// parsePolicy reads a RateLimit-Policy field by name; of a malformed one, nothing.
func parsePolicy(lines []string) map[string]policyItem {
	items, _ := parseList(lines)
	policies := make(map[string]policyItem, len(items))
	for _, it := range items {
		p := policyItem{window: -1}
		if w, has := it.params["w"]; has {
			if w.kind != sfInteger || w.number < 1 {
				return nil
			}
			p.window = w.number
		}
		if u, has := it.params["qu"]; has {
			if u.kind != sfString {
				return nil
			}
			p.unit = u.text
		}
		policies[it.text] = p
	}
	return policies
}

// What a bare item of RFC 9651 can be. Of those that the two fields have no use for, only the syntax is checked.
type sfKind int

const (
	sfInteger sfKind = iota
	sfString
	sfToken
	sfOther // decimal, byte sequence, boolean, date, display string
)

type bareItem struct {
	kind   sfKind
	number int64
	text   string
}

type sfItem struct {
	bareItem

	params map[string]bareItem
}

// parseList reads a List of Items: RFC 9651, section 4.2.1. The inner lists of other fields have no place here. An empty list is not
// ok.
func parseList(lines []string) ([]sfItem, bool) {
	p := reader{strings.Join(lines, ", ")}
	if len(p.s) > maxField {
		return nil, false
	}
	p.s = strings.Trim(p.s, " ")
	var items []sfItem
	for {
		it, ok := p.item()
		if !ok {
			return nil, false
		}
		items = append(items, it)
		p.s = strings.TrimLeft(p.s, " \t")
		if p.s == "" {
			return items, true
		}
		if !p.take(',') {
			return nil, false
		}
		p.s = strings.TrimLeft(p.s, " \t")
	}
}

// reader is what is left to read.
type reader struct{ s string }

func (p *reader) take(c byte) bool {
	if p.s == "" || p.s[0] != c {
		return false
	}
	p.s = p.s[1:]
	return true
}

// span takes the longest beginning of allowed characters.
func (p *reader) span(allowed func(byte) bool) string {
	n := 0
	for n < len(p.s) && allowed(p.s[n]) {
		n++
	}
	head := p.s[:n]
	p.s = p.s[n:]
	return head
}

func (p *reader) item() (sfItem, bool) {
	bare, ok := p.bare()
	if !ok {
		return sfItem{}, false
	}
	it := sfItem{bareItem: bare}
	for p.take(';') {
		p.s = strings.TrimLeft(p.s, " ")
		key := p.key()
		value := bareItem{kind: sfOther} // true
		if key != "" && p.take('=') {
			if value, ok = p.bare(); !ok {
				return sfItem{}, false
			}
		}
		if key == "" {
			return sfItem{}, false
		}
		if it.params == nil {
			it.params = make(map[string]bareItem)
		}
		it.params[key] = value // the last of the same name counts
	}
	return it, true
}

// key of a parameter; empty when there is none.
func (p *reader) key() string {
	if p.s == "" || !lower(p.s[0]) && p.s[0] != '*' {
		return ""
	}
	return p.span(func(c byte) bool { return lower(c) || digit(c) || strings.IndexByte("_-.*", c) >= 0 })
}

func (p *reader) bare() (bareItem, bool) {
	if p.s == "" {
		return bareItem{}, false
	}
	switch c := p.s[0]; {
	case digit(c) || c == '-':
		return p.number()
	case c == '"':
		p.s = p.s[1:]
		return p.quoted()
	case letter(c) || c == '*':
		text := p.span(func(c byte) bool { return letter(c) || digit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0 })
		return bareItem{kind: sfToken, text: text}, true
	case c == '?':
		p.s = p.s[1:]
		return bareItem{kind: sfOther}, p.take('0') || p.take('1')
	case c == ':':
		p.s = p.s[1:]
		_ = p.span(func(c byte) bool { return letter(c) || digit(c) || strings.IndexByte("+/=", c) >= 0 })
		return bareItem{kind: sfOther}, p.take(':')
	case c == '@':
		p.s = p.s[1:]
		n, ok := p.number()
		return bareItem{kind: sfOther}, ok && n.kind == sfInteger
	case c == '%':
		p.s = p.s[1:]
		return p.display()
	default:
		return bareItem{}, false
	}
}

// number takes an integer of up to 15 digits, or a decimal of up to 12 and 3.
func (p *reader) number() (bareItem, bool) {
	negative := p.take('-')
	whole := p.span(digit)
	if whole == "" || len(whole) > 15 {
		return bareItem{}, false
	}
	if p.take('.') {
		fraction := p.span(digit)
		return bareItem{kind: sfOther}, len(whole) <= 12 && len(fraction) >= 1 && len(fraction) <= 3
	}
	var n int64
	for i := range len(whole) {
		n = n*10 + int64(whole[i]-'0')
	}
	if negative {
		n = -n
	}
	return bareItem{kind: sfInteger, number: n}, true
}

// quoted takes a String behind its first quote.
func (p *reader) quoted() (bareItem, bool) {
	var b strings.Builder
	for p.s != "" {
		c := p.s[0]
		p.s = p.s[1:]
		switch {
		case c == '"':
			return bareItem{kind: sfString, text: b.String()}, true
		case c == '\\':
			if p.s == "" || p.s[0] != '"' && p.s[0] != '\\' {
				return bareItem{}, false
			}
			c = p.s[0]
			p.s = p.s[1:]
		case c < ' ' || c > '~':
			return bareItem{}, false
		}
		b.WriteByte(c)
	}
	return bareItem{}, false
}

// display takes a Display String behind its percent sign.
func (p *reader) display() (bareItem, bool) {
	if !p.take('"') {
		return bareItem{}, false
	}
	for p.s != "" {
		c := p.s[0]
		p.s = p.s[1:]
		switch {
		case c == '"':
			return bareItem{kind: sfOther}, true
		case c == '%':
			hex := p.span(func(c byte) bool { return digit(c) || c >= 'a' && c <= 'f' })
			if len(hex) < 2 {
				return bareItem{}, false
			}
		case c < ' ' || c > '~':
			return bareItem{}, false
		}
	}
	return bareItem{}, false
}

func digit(c byte) bool  { return c >= '0' && c <= '9' }
func lower(c byte) bool  { return c >= 'a' && c <= 'z' }
func letter(c byte) bool { return lower(c) || c >= 'A' && c <= 'Z' }
