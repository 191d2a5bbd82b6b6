package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Fields calls each for every field of the one object in a line, in order, and ends with its error. The line is UTF-8; values are parts of
// it. Where it is no JSON, it is read as far as it can be, so that the first mistake is the one that is told.
func Fields(line []byte, each func(name string, value json.RawMessage) error) error {
	if !json.Valid(line) {
		return slowly(line, each)
	}
	rest := blank(line)
	if rest[0] != '{' {
		return errors.New("it is not a JSON object")
	}
	for rest = blank(rest[1:]); rest[0] != '}'; {
		n := length(rest)
		name := Text(rest[:n])
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

func blank(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}

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

// Text is the value of a string in valid JSON.
func Text(value []byte) string {
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1])
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		panic(err) // it is a valid string
	}
	return s
}

// IsWhole tells whether all that a string in valid JSON has are characters. Half of a surrogate pair, \ud800, is read as U+FFFD: two
// different keys would become one.
func IsWhole(value []byte) bool {
	for i := bytes.IndexByte(value, '\\'); i >= 0 && i < len(value); i++ {
		switch {
		case value[i] != '\\':
		case value[i+1] != 'u':
			i++
		default:
			r := escaped(value[i:])
			if utf16.IsSurrogate(r) {
				if i += len(`\u0000`); utf16.DecodeRune(r, escaped(value[i:])) == utf8.RuneError {
					return false
				}
			}
			i += len(`\u0000`) - 1
		}
	}
	return true
}

// escaped is the code unit that a text begins with, as \u0000; 0 where there is none.
func escaped(b []byte) rune {
	if !bytes.HasPrefix(b, []byte(`\u`)) {
		return 0
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		panic(err) // the JSON is valid
	}
	return rune(n)
}

// Items are the first of a list in valid JSON, and how many it has: where these are a million, nobody wants to have them.
func Items(list []byte, most int) (first []json.RawMessage, count int) {
	for rest := blank(list[1:]); rest[0] != ']'; count++ {
		n := length(rest)
		if count < most {
			first = append(first, json.RawMessage(rest[:n:n]))
		}
		if rest = blank(rest[n:]); rest[0] == ',' {
			rest = blank(rest[1:])
		}
	}
	return first, count
}

// slowly is Fields for what is no valid JSON.
func slowly(line []byte, each func(name string, value json.RawMessage) error) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	if start, err := decoder.Token(); err != nil {
		return syntax(err)
	} else if start != json.Delim('{') {
		return errors.New("it is not a JSON object")
	}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return syntax(err)
		}
		name, _ := token.(string) // inside an object this is a field's name
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return syntax(err)
		}
		if err := each(name, value); err != nil {
			return err
		}
	}
	if _, err := decoder.Token(); err != nil {
		return syntax(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind the object")
	}
	return nil
}
