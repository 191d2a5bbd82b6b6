package jobline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spout-queue/spout/cmd/internal/strictjson"
	"github.com/spout-queue/spout/queue"
)

// Most is how many jobs one request may have, through every door.
const Most = 1000

// Split reads {"jobs":[…]} and returns what is in the list, each to be read by Parse. The error wraps [queue.ErrInvalid], or for more
// than [Most] jobs [queue.ErrTooLarge].
func Split(body []byte) ([]json.RawMessage, error) {
	lines, count, err := split(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", queue.ErrInvalid, err)
	}
	return lines, tooMany(count)
}

// SplitLines is Split for a job in each line.
func SplitLines(body []byte) ([]json.RawMessage, error) {
	body = bytes.TrimRight(body, "\r\n")
	if err := tooMany(bytes.Count(body, []byte("\n")) + 1); err != nil {
		return nil, err
	}
	var lines []json.RawMessage
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		lines = append(lines, line)
	}
	return lines, nil
}

func tooMany(jobs int) error {
	if jobs > Most {
		return fmt.Errorf("%w: the batch has %d jobs; %d are read", queue.ErrTooLarge, jobs, Most)
	}
	return nil
}

func split(body []byte) (lines []json.RawMessage, count int, err error) {
	if deep(body, deepest+2) { // each job is looked at by itself: its place in the batch takes nothing from it
		return nil, 0, errDeep
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
		seen = true
		lines, count = strictjson.Items(value, Most)
		return nil
	})
	if err == nil && !seen {
		err = errors.New(`field "jobs" is missing`)
	}
	return lines, count, err
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
