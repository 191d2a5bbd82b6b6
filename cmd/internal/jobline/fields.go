package jobline

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// fields calls each for every field of an object, in order. The line is UTF-8. Values are parts of it.
func fields(line []byte, each func(name string, value json.RawMessage) error) error {
	if !json.Valid(line) {
		return slowly(line, each)
	}
	rest := blank(line)
	if rest[0] != '{' {
		return errors.New("it is not a JSON object")
	}
	for rest = blank(rest[1:]); rest[0] != '}'; {
		n := length(rest)
		name := text(rest[:n])
		rest = blank(blank(rest[n:])[1:]) // the colon
		n = length(rest)
		if err := each(name, json.RawMessage(rest[:n:n])); err != nil {
			return err
		}
		if rest = blank(rest[n:]); rest[0] == ',' {
			rest = blank(rest[1:])
		}
	}
	return nil
}

func blank(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n") }

// length of the value that valid JSON begins with.
func length(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 { // the object around a number, true, false or null
				return i
			}
			depth--
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(b)
}

// text is the value of a string in valid JSON.
func text(value []byte) string {
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1])
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		panic(err) // it is a valid string
	}
	return s
}

// slowly is fields for what is no valid JSON: what can be read is, so that the first mistake is the one that is told.
func slowly(line []byte, each func(name string, value json.RawMessage) error) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return syntax(err, "it is not a JSON object")
	}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return syntax(err, "")
		}
		name, _ := token.(string) // inside an object this is a field's name
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return syntax(err, "")
		}
		if err := each(name, value); err != nil {
			return err
		}
	}
	if _, err := decoder.Token(); err != nil {
		return syntax(err, "")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind the object")
	}
	return nil
}
