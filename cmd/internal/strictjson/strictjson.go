// Package strictjson reads JSON objects and complains about everything in them that is not understood: unknown, repeated and
// misspelt fields, nulls, and anything behind the object.
package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Decode reads an object into the struct that to points to. A field has exactly the name of its json tag.
func Decode(data []byte, to any) error {
	if !utf8.Valid(data) {
		return errors.New("it is not valid UTF-8")
	}
	known := namesOf(reflect.TypeOf(to).Elem())
	seen := make([]string, 0, len(known))
	err := Fields(data, func(name string, value json.RawMessage) error {
		switch {
		case !slices.Contains(known, name):
			return fmt.Errorf("unknown field %q; known are %s", clip(name), strings.Join(known, ", "))
		case slices.Contains(seen, name):
			return fmt.Errorf("field %q is there twice", name)
		case string(value) == "null":
			return fmt.Errorf("%s is null; leave it out", name)
		case value[0] == '"' && !IsWhole(value):
			return fmt.Errorf("%s has half of a surrogate pair, which is no character", name)
		}
		seen = append(seen, name)
		return nil
	})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, to); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fmt.Errorf("%s is a %s, which does not belong there", wrong.Field, wrong.Value)
		}
		return err
	}
	return nil
}

func namesOf(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// syntax words what encoding/json found, for somebody who has not seen the code.
func syntax(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it is not JSON: it ends too early")
	}
	return fmt.Errorf("it is not JSON: %w", err)
}

// clip shortens what somebody sent for an error text.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
