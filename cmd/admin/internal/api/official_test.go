package api_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// official is the schema of OpenAPI 3.1 itself. See testdata/openapi.
func official(t *testing.T) *jsonschema.Schema {
	t.Helper()
	const sum = "e7cb616a2a10849a166c4e4a93c62c56cfea02cc00eadf287e2fb875e7124098"
	file, err := os.ReadFile("testdata/openapi/3.1-2022-10-07.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(text)); got != sum {
		t.Fatalf("the schema has the SHA-256 %s, not %s", got, sum)
	}
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("official.json", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("official.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// The whole description is an OpenAPI 3.1 document, in the eyes of those who say what that is; and what is none is told from it.
func TestOfficialSchema(t *testing.T) {
	t.Parallel()
	s := newSite(t, mini(t))
	body, _ := get(t, s.server.URL+"/openapi.json")
	schema := official(t)
	for _, test := range []struct {
		name   string
		change func(document map[string]any)
		valid  bool
	}{
		{"as it is", func(map[string]any) {}, true},
		{"an unknown field", func(d map[string]any) { d["pathes"] = true }, false},
		{"a parameter in no place", func(d map[string]any) {
			parameters, _ := object(object(object(d["paths"])["/v1/events"])["get"])["parameters"].([]any)
			object(parameters[0])["in"] = "nowhere"
		}, false},
	} {
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		test.change(object(document))
		if err := schema.Validate(document); (err == nil) != test.valid {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
