package changes

import (
	"bytes"
	"encoding/json"
	"strings"
)

const (
	sideMost = 4 << 10 // bytes of Before and of After
	textMost = 1 << 10 // bytes of Error
)

// trim makes a change fit for the log: of Before and After what differs, and of what is long only how long it was.
func trim(c Change) Change {
	c.Before, c.After = differing(c.Before, c.After)
	c.Before, c.After = fitting(c.Before), fitting(c.After)
	if len(c.Error) > textMost {
		c.Error = strings.ToValidUTF8(c.Error[:textMost], "") + "…"
	}
	return c
}

// differing leaves of two objects the members that are not the same in both.
func differing(before, after json.RawMessage) (was, is json.RawMessage) {
	var a, b map[string]json.RawMessage
	if json.Unmarshal(before, &a) != nil || json.Unmarshal(after, &b) != nil || a == nil || b == nil {
		return before, after
	}
	for name, value := range a {
		if other, both := b[name]; both && bytes.Equal(value, other) {
			delete(a, name)
			delete(b, name)
		}
	}
	return object(a), object(b)
}

func object(members map[string]json.RawMessage) json.RawMessage {
	body, err := json.Marshal(members)
	if err != nil {
		panic(err) // its members were JSON
	}
	return body
}

func fitting(side json.RawMessage) json.RawMessage {
	if len(side) <= sideMost {
		return side
	}
	body, err := json.Marshal(struct {
		Omitted string `json:"omitted"`
		Bytes   int    `json:"bytes"`
	}{"too long for the log of changes", len(side)})
	if err != nil {
		panic(err) // a text and a number
	}
	return body
}
