package jobline

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spout-queue/spout/cmd/internal/strictjson"
	"github.com/spout-queue/spout/queue"
)

// Most is how many jobs one request may have, through every door.
const Most = 1000

// Split reads {"jobs":[…]} and returns what is in the list, each to be read by Parse. The error wraps [queue.ErrInvalid].
func Split(body []byte) ([]json.RawMessage, error) {
	lines, err := split(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", queue.ErrInvalid, err)
	}
	return lines, nil
}

func split(body []byte) (lines []json.RawMessage, err error) {
	if deep(body, deepest+2) { // each job is looked at by itself: its place in the batch takes nothing from it
		return nil, errDeep
	}
	seen := false
	err = strictjson.Fields(body, func(name string, value json.RawMessage) error {
		switch {
		case name != "jobs":
			return fmt.Errorf(`unknown field %q; known is jobs`, clip(name))
		case seen:
			return errors.New(`field "jobs" is there twice`)
		case value[0] != '[':
			return errors.New("jobs is not a list")
		}
		seen, lines = true, strictjson.Items(value)
		return nil
	})
	if err == nil && !seen {
		err = errors.New(`field "jobs" is missing`)
	}
	return lines, err
}

// deepest is how far lists and objects may be nested: more than any payload needs, and little enough for whoever reads it.
const deepest = 500

var errDeep = fmt.Errorf("lists and objects are nested deeper than %d levels", deepest)

// deep tells whether JSON is nested deeper than some levels. Of what is no JSON it says anything.
func deep(b []byte, most int) bool {
	depth, inText := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			if depth++; depth > most {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
