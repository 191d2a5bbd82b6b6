// Package redact takes out of what people are shown what looks like a secret: values of telling headers and fields, passwords
// and tokens in URLs, and what has the shape of a well-known token. It errs on the side of taking out, and it cannot know every secret: it is no reason to put one into a
// payload. What is written {{secret:name}} is no secret and stays.
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// Mark stands where a secret was.
const Mark = "[redacted]"

// nestedMost is how deep JSON in strings of JSON is looked into.
const nestedMost = 3

// JSON returns a JSON value, compact, without its secrets, and how many there were. What is no JSON is taken as text and
// becomes a JSON string.
func JSON(value []byte) (json.RawMessage, int) {
	return redactJSON(value, 0)
}

func redactJSON(value []byte, nested int) (json.RawMessage, int) {
	w := walker{in: json.NewDecoder(bytes.NewReader(value)), nested: nested}
	w.in.UseNumber()
	err := w.value(false)
	if _, end := w.in.Token(); err != nil || !errors.Is(end, io.EOF) { // it is no JSON, or goes on behind it
		text, n := Text(string(value))
		return quoted(text), n
	}
	return w.out.Bytes(), w.found
}

// telling tells of the name of a field, header or parameter whether its value is a secret.
func telling(name string) bool {
	name = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(name))
	switch name {
	case "authorization", "proxyauthorization", "cookie", "setcookie", "key", "sig", "signature", "code", "auth", "jwt", "bearer",
		"pin", "otp", "ssn", "cvv", "cvc", "assertion", "sessionid", "sid", "pwd", "pass", "xamzcredential":
		return true
	}
	for _, part := range []string{"password", "passwd", "passphrase", "secret", "apikey", "accesskey", "privatekey", "credential", "signature"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return strings.HasSuffix(name, "token") || strings.HasSuffix(name, "authkey")
}

// walker copies a JSON value, token by token, so that order and repeated names stay.
type walker struct {
	in     *json.Decoder
	out    bytes.Buffer
	nested int
	found  int
}

// value copies the next one. Of one that is hidden only the shape is left.
func (w *walker) value(hidden bool) error {
	token, err := w.in.Token()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case json.Delim:
		return w.many(v, hidden)
	case string:
		w.text(v, hidden)
	case nil:
		w.out.WriteString("null")
	default:
		if hidden {
			w.found++
			w.out.Write(quoted(Mark))
			return nil
		}
		text, err := json.Marshal(v)
		w.out.Write(text)
		return err
	}
	return nil
}

// many copies the members of an object or of a list.
func (w *walker) many(open json.Delim, hidden bool) error {
	w.out.WriteString(open.String())
	for first := true; w.in.More(); first = false {
		if !first {
			w.out.WriteByte(',')
		}
		hide := hidden
		if open == '{' {
			token, err := w.in.Token()
			if err != nil {
				return err
			}
			name, _ := token.(string) // a decoder refuses other names
			w.out.Write(quoted(name))
			w.out.WriteByte(':')
			if hide = hidden || telling(name); name == "body_base64" && !hide {
				if err := w.encoded(); err != nil {
					return err
				}
				continue
			}
		}
		if err := w.value(hide); err != nil {
			return err
		}
	}
	closing, err := w.in.Token()
	if err != nil {
		return err
	}
	if delim, ok := closing.(json.Delim); ok {
		w.out.WriteString(delim.String())
	}
	return nil
}

// text copies a string, or what is left of it.
func (w *walker) text(s string, hidden bool) {
	if hidden {
		if s != "" && secret(s) == Mark {
			w.found++
			s = Mark
		}
		w.out.Write(quoted(s))
		return
	}
	if inner := strings.TrimSpace(s); w.nested < nestedMost && len(inner) > 1 && (inner[0] == '{' || inner[0] == '[') && json.Valid([]byte(inner)) {
		if clean, n := redactJSON([]byte(inner), w.nested+1); n > 0 {
			w.found += n
			s = string(clean)
		}
		w.out.Write(quoted(s))
		return
	}
	s, n := Text(s)
	w.found += n
	w.out.Write(quoted(s))
}

// encoded copies a string of base64 unless there are secrets in it.
func (w *walker) encoded() error {
	token, err := w.in.Token()
	if err != nil {
		return err
	}
	s, ok := token.(string)
	if delim, many := token.(json.Delim); many {
		return w.many(delim, true)
	}
	if !ok {
		text, err := json.Marshal(token)
		w.out.Write(text)
		return err
	}
	if body, err := base64.StdEncoding.DecodeString(s); err == nil && utf8.Valid(body) {
		if _, n := redactJSON(body, w.nested+1); n > 0 {
			w.found += n
			s = Mark
		}
	}
	w.out.Write(quoted(s))
	return nil
}

// quoted is a string in JSON, with <, > and & as they are: what shows it escapes them.
func quoted(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(strings.ToValidUTF8(s, "\uFFFD")) // strings always encode
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
