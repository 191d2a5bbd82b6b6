package strictjson

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// Both ways to read an object agree, on every valid one.
func FuzzFields(f *testing.F) {
	for _, line := range []string{
		`{}`, ` { "a" : 1 , "b":[{"x":"]}"},2] ,"c":"\\\"}" }`, `{"k\u0065y":null,"n":-1.5e3}`, `{"a":{"b":{}},"a":true}`, `[1]`, `"x"`, ` 7 `,
		`{"a":1}x`, `{"a"`, `{"a":"\ud800"}`, `{"":""}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if !utf8.Valid(line) {
			return // Parse has refused it
		}
		type field struct {
			Name  string
			Value string
		}
		read := func(how func([]byte, func(string, json.RawMessage) error) error) (all []field, failed bool) {
			err := how(line, func(name string, value json.RawMessage) error {
				all = append(all, field{name, string(value)})
				return nil
			})
			return all, err != nil
		}
		fast, failed := read(Fields)
		slow, alsoFailed := read(slowly)
		if diff := cmp.Diff(slow, fast); diff != "" || failed != alsoFailed {
			t.Errorf("%q: %v, %v: %s", line, failed, alsoFailed, diff)
		}
	})
}
