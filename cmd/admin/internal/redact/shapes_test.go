package redact_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/spout-queue/spout/cmd/admin/internal/redact"
)

// TestShapes: what is a secret by how it looks, or by a name beside it in whatever text, is taken out; words that only remind of one stay.
func TestShapes(t *testing.T) {
	t.Parallel()
	const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"
	x := strings.Repeat("x1Y", 20)
	for in, want := range map[string]string{
		// JSON in an error, whole, cut off and quoted.
		`answered 401: {"access_token":"abc","n":1}`: `answered 401: {"access_token":"[redacted]","n":1}`,
		`answered 401: {"password": "a\"b c`:         `answered 401: {"password": "[redacted]`,
		`said "{\"api_key\":\"abc\",\"a\":\"b\"}"`:   `said "{\"api_key\":\"[redacted]\",\"a\":\"b\"}"`,
		`{"pin":1234,"code":"not_found"`:             `{"pin":[redacted],"code":"not_found"`,
		// Pairs.
		`dial: password="a b" host=h`:      `dial: password="[redacted]" host=h`,
		`secret = 'a b', user = 'u'`:       `secret = '[redacted]', user = 'u'`,
		"password: hunter2\nuser: u":       "password: [redacted]\nuser: u",
		"api-key: abc, Private-Token: abc": "api-key: [redacted], Private-Token: [redacted]",
		// URLs.
		"https://u:p@ss@h/x@y": "https://[redacted]@h/x@y",
		// Shapes.
		"bad token " + jwt + " given":                                            "bad token [redacted] given",
		"key AKIAIOSFODNN7EXAMPLE is off":                                        "key [redacted] is off",
		"ghp_" + x[:36] + " and spout_" + x[:43] + ".":                           "[redacted] and [redacted].",
		"-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nx": "[redacted]\nx",
		"-----BEGIN PRIVATE KEY-----\nabc":                                       "[redacted]",
		// A secret beside what was taken out already.
		"Cookie: a=b; to=https://u:p@h": "Cookie: [redacted]",
		// What is none.
		"invalid token signature":              "invalid token signature",
		"basic authentication is required":     "basic authentication is required",
		"unexpected token: expected a value":   "unexpected token: expected a value",
		"status code: 404, key: tenant-7":      "status code: 404, key: tenant-7",
		"Authorization: Bearer [redacted] x":   "Authorization: [redacted]",
		"sent Basic dXNlcjpwYXNz to https://h": "sent Basic [redacted] to https://h",
		"task-" + x + " disk-" + x:             "task-" + x + " disk-" + x,
	} {
		got, _ := redact.Text(in)
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if again, n := redact.Text(got); again != got || n != 0 {
			t.Errorf("%q becomes %q, %d more", got, again, n)
		}
	}
}

// TestMoreThanOneValue: what begins as JSON and goes on is text, and nothing of it is lost or left.
func TestMoreThanOneValue(t *testing.T) {
	t.Parallel()
	lines := "{\"a\":1}\n{\"password\":\"p\"}"
	for in, want := range map[string]string{
		"404 page not found": `"404 page not found"`,
		lines:                `"{\"a\":1}\n{\"password\":\"[redacted]\"}"`,
		`{"body_base64":"` + base64.StdEncoding.EncodeToString([]byte(lines)) + `"}`:            `{"body_base64":"[redacted]"}`,
		`{"secret":{"body_base64":"` + base64.StdEncoding.EncodeToString([]byte("abc")) + `"}}`: `{"secret":{"body_base64":"[redacted]"}}`,
	} {
		if got, _ := redact.JSON([]byte(in)); string(got) != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
