package ratelimit

import (
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

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

// spent is the longest window of the limits that have nothing left.
func spent(limits []limitItem, policies map[string]policyItem) (wait time.Duration, field string) {
	for _, l := range limits {
		if l.remaining > 0 {
			continue
		}
		window := l.window
		if p := policies[l.name]; window < 0 && p.unit != "concurrent-requests" {
			window = p.window
		}
		if after := duration(float64(window)); after > wait {
			wait, field = after, "RateLimit"
		}
	}
	return wait, field
}

// parseRateLimit reads a RateLimit field, a list, or the dictionary that it was in draft 07. A malformed one, or one that
// is not there, is not ok.
func parseRateLimit(lines []string) ([]limitItem, bool) {
	if len(lines) == 0 {
		return nil, false
	}
	items, ok := parseList(lines)
	if !ok {
		return parseDictionary(lines)
	}
	limits := make([]limitItem, len(items))
	for i, item := range items {
		name, named := nameOf(item)
		remaining, good := whole(item.Params, "r", 0)
		window, sound := whole(item.Params, "t", 0)
		if !named || !good || remaining < 0 || !sound {
			return nil, false
		}
		limits[i] = limitItem{name, remaining, window}
	}
	return limits, true
}

// parsePolicy reads a RateLimit-Policy field by name; of a malformed one, nothing.
func parsePolicy(lines []string) map[string]policyItem {
	items, _ := parseList(lines)
	policies := make(map[string]policyItem, len(items))
	for _, item := range items {
		name, _ := nameOf(item)
		window, sound := whole(item.Params, "w", 1)
		unit, has := item.Params.Get("qu")
		text, isText := unit.(string)
		if !sound || has && !isText {
			return nil
		}
		policies[name] = policyItem{text, window}
	}
	return policies
}

// parseDictionary reads limit=10, remaining=0, reset=9.
func parseDictionary(lines []string) ([]limitItem, bool) {
	if tooLong(lines) {
		return nil, false
	}
	dictionary, err := httpsfv.UnmarshalDictionary(lines)
	if err != nil {
		return nil, false
	}
	number := func(name string) int64 {
		member, _ := dictionary.Get(name)
		item, _ := member.(httpsfv.Item)
		if n, ok := item.Value.(int64); ok && n >= 0 {
			return n
		}
		return -1
	}
	limit := limitItem{remaining: number("remaining"), window: number("reset")}
	return []limitItem{limit}, limit.remaining >= 0
}

// parseList reads a List of Items: RFC 9651. The inner lists of other fields have no place here. An empty list is not ok.
func parseList(lines []string) ([]httpsfv.Item, bool) {
	if tooLong(lines) {
		return nil, false
	}
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil || len(list) == 0 {
		return nil, false
	}
	items := make([]httpsfv.Item, len(list))
	for i, member := range list {
		item, ok := member.(httpsfv.Item)
		if !ok {
			return nil, false
		}
		items[i] = item
	}
	return items, true
}

func tooLong(lines []string) bool { return len(strings.Join(lines, ", ")) > maxField }

// nameOf is the name of a limit, a String; a Token is forgiven.
func nameOf(item httpsfv.Item) (name string, ok bool) {
	switch v := item.Value.(type) {
	case string:
		return v, true
	case httpsfv.Token:
		return string(v), true
	}
	return "", false
}

// whole is a parameter that must be an Integer of at least low; -1 when it is not there.
func whole(params *httpsfv.Params, name string, low int64) (n int64, sound bool) {
	v, has := params.Get(name)
	if !has {
		return -1, true
	}
	n, ok := v.(int64)
	return n, ok && n >= low
}
