package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// description is the OpenAPI document that a site serves, to hold its answers against.
type description struct {
	raw      map[string]any
	compiler *jsonschema.Compiler
	paths    []describedPath
}

type describedPath struct {
	path    string
	matches *regexp.Regexp
	item    map[string]any
}

func document(tb testing.TB, s *site) *description {
	tb.Helper()
	answer, err := http.Get(s.server.URL + s.base + "/openapi.json")
	if err != nil {
		tb.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		tb.Fatalf("the description: %d %v", answer.StatusCode, err)
	}
	d := &description{compiler: jsonschema.NewCompiler()}
	if err := json.Unmarshal(body, &d.raw); err != nil {
		tb.Fatal(err)
	}
	resource, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource("file:///openapi.json", resource); err != nil {
		tb.Fatal(err)
	}
	parameter := regexp.MustCompile(`\\\{[a-z]+\\\}`)
	for path, item := range object(d.raw["paths"]) {
		pattern := "^" + parameter.ReplaceAllString(regexp.QuoteMeta(s.base+path), "[^/]+") + "$"
		d.paths = append(d.paths, describedPath{path, regexp.MustCompile(pattern), object(item)})
	}
	return d
}

func object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}

// of is the described path of a request: that with the fewest parameters, as the mux has it.
func (d *description) of(r *http.Request) (path string, operation map[string]any) {
	least := 1 << 10
	for _, p := range d.paths {
		n := strings.Count(p.path, "{")
		if op := object(p.item[strings.ToLower(r.Method)]); op != nil && p.matches.MatchString(r.URL.EscapedPath()) && n < least {
			path, operation, least = p.path, op, n
		}
	}
	return path, operation
}

// check holds an answer against what is described: its status, its type and its body.
func (d *description) check(tb testing.TB, r *http.Request, answer *http.Response, body []byte) {
	tb.Helper()
	what := fmt.Sprintf("%s %s: %d", r.Method, r.URL.EscapedPath(), answer.StatusCode)
	path, operation := d.of(r)
	mimeType, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	pointer := "/components/schemas/Problem"
	if operation != nil {
		response := object(object(operation["responses"])[fmt.Sprint(answer.StatusCode)])
		if response != nil && len(body) == 0 && response["content"] == nil {
			return
		}
		content := object(object(response["content"])[mimeType])
		if content == nil {
			tb.Errorf("%s %s is not described: %s", what, mimeType, body)
			return
		}
		pointer = "/paths/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(path) + "/" + strings.ToLower(r.Method) +
			"/responses/" + fmt.Sprint(answer.StatusCode) + "/content/" + strings.ReplaceAll(mimeType, "/", "~1") + "/schema"
	} else if answer.StatusCode != http.StatusNotFound && answer.StatusCode != http.StatusMethodNotAllowed {
		return // not of the API, or a redirect
	}
	if mimeType != "application/json" && mimeType != "application/problem+json" {
		return
	}
	schema, err := d.compiler.Compile("file:///openapi.json#" + strings.ReplaceAll(strings.ReplaceAll(pointer, "{", "%7B"), "}", "%7D"))
	if err != nil {
		tb.Errorf("%s: %v", what, err)
		return
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		tb.Errorf("%s: %v: %s", what, err, body)
	}
}
