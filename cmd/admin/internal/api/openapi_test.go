package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/cmd/admin/internal/api"
	"github.com/spout-queue/spout/internal/redistest"
)

// get asks for a page that anybody may read.
func get(t *testing.T, url string) (body string, status int) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data), answer.StatusCode
}

// Every schema of the description is one of JSON Schema 2020-12, which is that of OpenAPI 3.1; and the same for OpenAPI 3.0 is valid as a whole.
func TestDescription(t *testing.T) {
	t.Parallel()
	s := newSite(t, mini(t), func(o *api.Options) { o.Base = "/spout" })
	if s.document.raw["openapi"] != "3.1.0" {
		t.Errorf("it is of version %v", s.document.raw["openapi"])
	}
	schemas := object(object(s.document.raw["components"])["schemas"])
	for name := range schemas {
		if _, err := s.document.compiler.Compile("file:///openapi.json#/components/schemas/" + name); err != nil {
			t.Error(err)
		}
	}
	if len(schemas) < 20 || schemas["ErrorModel"] != nil || schemas["Event"] == nil || schemas["Missed"] == nil {
		t.Errorf("%d schemas", len(schemas))
	}
	for path, item := range object(s.document.raw["paths"]) { // what the console says before any route is asked, too
		for method, op := range object(item) {
			for _, status := range []string{"400", "401", "403", "421", "429", "500", "503"} {
				if object(object(op)["responses"])[status] == nil {
					t.Errorf("%s %s has no %s", method, path, status)
				}
			}
		}
	}
	older, _ := get(t, s.server.URL+"/spout/openapi-3.0.json")
	document, err := openapi3.NewLoader().LoadFromData([]byte(older))
	if err == nil {
		err = document.Validate(t.Context())
	}
	if err != nil {
		t.Errorf("as OpenAPI 3.0: %v", err)
	}
	if inYAML, status := get(t, s.server.URL+"/spout/openapi.yaml"); status != 200 || !strings.Contains(inYAML, "openapi: 3.1.0") {
		t.Errorf("in YAML: %d", status)
	}
	for _, path := range []string{"/spout/docs", "/spout/docs/problems", "/spout/docs/problems/full"} {
		page, status := get(t, s.server.URL+path)
		if status != 200 || strings.Contains(page, "<script") || strings.Contains(page, " style=") || !strings.Contains(page, `href="/spout/docs/docs.css"`) {
			t.Errorf("%s: %d", path, status)
		}
		if !strings.Contains(page, `<link rel="icon" href="data:,">`) {
			t.Errorf("%s: the browser would ask for an icon outside of the base path", path)
		}
	}
	s.ask("viewer", "GET", "/v1/workers", "").want(t, 200, nil)
}

func mini(t *testing.T) *redis.Client {
	t.Helper()
	return redistest.MiniClient(t)
}
