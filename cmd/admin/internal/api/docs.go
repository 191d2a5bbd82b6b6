package api

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/spout-queue/spout/queue"
)

//go:embed docs
var docsFiles embed.FS

// The page about the API is made of its description, once, and needs no script.
type (
	docsPage struct {
		About   string
		Tags    []docsTag
		Schemas []docsSchema
	}
	docsTag struct {
		Name       string
		Operations []docsOperation
	}
	docsOperation struct {
		ID, Method, Path, Summary, Description, Curl string
		Parameters                                   []docsField
		Bodies                                       []docsBody
		Answers                                      []docsAnswer
	}
	docsAnswer struct {
		Status, Description string
		Bodies              []docsBody
	}
	docsBody struct{ Type, Form, Schema string }

	docsSchema struct {
		Name   string
		Fields []docsField
	}
	docsField struct {
		Name, In, Form, Schema, Description string
		Required                            bool
	}
	docsProblem struct {
		Reason        queue.Reason
		Status        int
		Title, Advice string
	}
)

func (s *server) serveDocs() error {
	pages, err := template.New("").Funcs(template.FuncMap{"base": func() string { return s.base }}).ParseFS(docsFiles, "docs/layout.html")
	if err != nil {
		return err
	}
	serve := func(path, name string, data any) error {
		var b bytes.Buffer
		if err := pages.ExecuteTemplate(&b, name, data); err != nil {
			return fmt.Errorf("write the page %s: %w", path, err)
		}
		s.routes.mux.HandleFunc("GET "+s.base+path, func(w http.ResponseWriter, _ *http.Request) {
			send(w, http.StatusOK, "text/html; charset=utf-8", b.Bytes())
		})
		return nil
	}
	if err := serve("/docs", "docs", s.docsPage()); err != nil {
		return err
	}
	var all []docsProblem
	for _, k := range kinds() {
		p := docsProblem{k.reason, k.status, k.title, k.advice}
		all = append(all, p)
		if err := serve("/docs/problems/"+string(k.reason), "problems", []docsProblem{p}); err != nil {
			return err
		}
	}
	if err := serve("/docs/problems", "problems", all); err != nil {
		return err
	}
	style, err := docsFiles.ReadFile("docs/docs.css")
	s.routes.mux.HandleFunc("GET "+s.base+"/docs/docs.css", func(w http.ResponseWriter, _ *http.Request) {
		send(w, http.StatusOK, "text/css; charset=utf-8", style)
	})
	return err
}

func (s *server) docsPage() docsPage {
	api := s.huma.OpenAPI()
	page := docsPage{About: api.Info.Description}
	for _, tag := range api.Tags {
		t := docsTag{Name: tag.Name}
		for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
			item := api.Paths[path]
			for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Delete} {
				if op != nil && op.Tags[0] == tag.Name {
					t.Operations = append(t.Operations, s.docsOperation(op))
				}
			}
		}
		page.Tags = append(page.Tags, t)
	}
	schemas := api.Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		page.Schemas = append(page.Schemas, docsSchema{name, fieldsOf(schemas[name])})
	}
	return page
}

func (s *server) docsOperation(op *huma.Operation) docsOperation {
	d := docsOperation{ID: op.OperationID, Method: op.Method, Path: op.Path, Summary: op.Summary, Description: op.Description}
	for _, p := range op.Parameters {
		d.Parameters = append(d.Parameters, docsField{Name: p.Name, In: p.In, Required: p.Required, Form: formOf(p.Schema), Description: p.Description})
	}
	if op.RequestBody != nil {
		d.Bodies = bodiesOf(op.RequestBody.Content)
		if example, err := json.Marshal(op.RequestBody.Content[jsonType].Example); err == nil {
			d.Curl = fmt.Sprintf("curl -X %s -H 'Content-Type: %s' -d '%s' $SPOUT%s", op.Method, jsonType, example, op.Path)
		}
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		r := op.Responses[status]
		d.Answers = append(d.Answers, docsAnswer{status, r.Description, bodiesOf(r.Content)})
	}
	return d
}

func bodiesOf(content map[string]*huma.MediaType) []docsBody {
	var list []docsBody
	for _, name := range slices.Sorted(maps.Keys(content)) {
		schema := content[name].Schema
		list = append(list, docsBody{name, formOf(schema), schemaOf(schema)})
	}
	return list
}

func fieldsOf(schema *huma.Schema) []docsField {
	var list []docsField
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		p := schema.Properties[name]
		list = append(list, docsField{
			Name: name, Form: formOf(p), Schema: schemaOf(p), Description: p.Description, Required: slices.Contains(schema.Required, name),
		})
	}
	return list
}

// schemaOf is the name of the schema that a schema is, or is a list of.
func schemaOf(schema *huma.Schema) string {
	if schema.Items != nil {
		schema = schema.Items
	}
	return schema.Ref[strings.LastIndex(schema.Ref, "/")+1:]
}

// formOf says in a few words what a value looks like.
func formOf(schema *huma.Schema) string {
	name := schemaOf(schema)
	switch {
	case schema.Items != nil && name != "":
		return "list of " + name
	case schema.Items != nil:
		return "list of " + formOf(schema.Items)
	case name != "":
		return name
	}
	form := schema.Type
	if schema.Format != "" {
		form = schema.Format
	}
	if len(schema.Enum) > 0 {
		form = strings.Trim(fmt.Sprint(schema.Enum), "[]")
	}
	if schema.Default != nil {
		form += fmt.Sprintf(", default %v", schema.Default)
	}
	if schema.Minimum != nil && schema.Maximum != nil {
		form += fmt.Sprintf(", %.0f to %.0f", *schema.Minimum, *schema.Maximum)
	}
	if form == "" {
		return "any JSON"
	}
	return form
}
