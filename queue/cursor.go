package queue

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// errCursor says that a cursor was not made by this package, or for another question.
var errCursor = fmt.Errorf("%w: the cursor is none of this list; begin without one", ErrInvalid)

// writeCursor makes an opaque text of where a list stands, safe in a URL.
func writeCursor(at any) string {
	text, err := json.Marshal(at)
	if err != nil {
		panic(fmt.Sprintf("queue: cursor: %v", err)) // of plain fields only
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// readCursor is the inverse of writeCursor; an empty one changes nothing.
func readCursor(text string, at any) error {
	if text == "" {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(b, at) != nil {
		return errCursor
	}
	return nil
}
