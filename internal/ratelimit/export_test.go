package ratelimit

// FirstLimit reads a RateLimit field and returns its first item: name, r, t or -1, and how many items there are, 0 when it
// is malformed.
func FirstLimit(lines ...string) (name string, remaining, window int64, n int) {
	items, ok := parseRateLimit(lines)
	if !ok {
		return "", 0, 0, 0
	}
	return items[0].name, items[0].remaining, items[0].window, len(items)
}
