package api

import (
	"cmp"
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

func configOf(o Options) huma.Config {
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Spout", Version: cmp.Or(o.Version, "0"),
				Description: "Producers put jobs into bounded FIFO buckets; a full bucket rejects at once and says when to come back. " +
					"Workers drain every bucket at its own fixed rate.",
				License: &huma.License{Name: "MIT", URL: "https://opensource.org/license/mit"},
			},
			Servers: []*huma.Server{{URL: cmp.Or(o.Base, "/")}},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"token": {Type: "http", Scheme: "bearer", Description: "A token of admin token new. On loopback without tokens, none is asked for."},
				},
			},
			Security: []map[string][]string{{"token": {}}, {}},
			Tags: []*huma.Tag{
				{Name: "jobs"},
				{Name: "classes"},
				{Name: "buckets"},
				{Name: "dead", Description: "Jobs that are out of attempts, or failed for good."},
				{Name: "service", Description: "Workers, books, changes, history, events, meters."},
			},
		},
		Formats: map[string]huma.Format{jsonType: huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat}, DefaultFormat: jsonType,
		Transformers: []huma.Transformer{asProblem},
	}
}

const (
	jsonType    = "application/json"
	linesType   = "application/x-ndjson"
	problemMIME = "application/problem+json"
)

// operation is the description of one route. Its answers with problems are those of the reasons, and those that any route has.
func (s *server) operation(method, path, tag, summary, description string, reasons ...queue.Reason) huma.Operation {
	op := huma.Operation{
		OperationID: operationID(method, path), Method: method, Path: path, Tags: []string{tag}, Summary: summary, Description: description,
		Responses: map[string]*huma.Response{},
	}
	if method == http.MethodGet && path != eventsPath {
		canBeTagged(&op)
	}
	reasons = append(reasons, queue.ReasonInvalid, wire.ReasonUnauthenticated, wire.ReasonDenied, reasonNotAcceptable, reasonInternal, queue.ReasonUnavailable,
		reasonTooManyWrong, reasonWrongHost)
	if method != http.MethodGet {
		reasons = append(reasons, reasonCrossSite, queue.ReasonTooLarge)
	}
	titles := map[int][]string{}
	for _, k := range kinds() {
		if slices.Contains(reasons, k.reason) {
			titles[k.status] = append(titles[k.status], string(k.reason)+": "+k.title)
		}
	}
	for status, texts := range titles {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: strings.Join(texts, "; "), Headers: problemHeaders(status),
			Content: map[string]*huma.MediaType{problemMIME: {Schema: s.schema(reflect.TypeFor[wire.Problem]())}},
		}
	}
	return op
}

// operationID is the name of a route in generated clients, such as post-class-pause.
func operationID(method, path string) string {
	var words []string
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/v1/"), "/") {
		words = append(words, strings.NewReplacer("{", "by-", "}", "").Replace(part))
	}
	return strings.ToLower(method) + "-" + strings.Join(words, "-")
}

func problemHeaders(status int) map[string]*huma.Param {
	text := &huma.Schema{Type: huma.TypeString}
	switch status {
	case http.StatusTooManyRequests:
		return map[string]*huma.Header{
			"Retry-After":      {Description: "When to come back: whole seconds, rounded up.", Schema: &huma.Schema{Type: huma.TypeInteger}},
			"RateLimit":        {Description: "What is left, and until when: draft-ietf-httpapi-ratelimit-headers-11.", Schema: text},
			"RateLimit-Policy": {Description: "The rate of the bucket.", Schema: text},
		}
	case http.StatusServiceUnavailable:
		return map[string]*huma.Header{"Retry-After": {Description: "Where it is known.", Schema: &huma.Schema{Type: huma.TypeInteger}}}
	}
	return nil
}

// schema is that of a type of package wire.
func (s *server) schema(t reflect.Type) *huma.Schema {
	return s.huma.OpenAPI().Components.Schemas.Schema(t, true, t.Name())
}

// answers adds an answer in JSON to the description of a route.
func (s *server) answers(op *huma.Operation, status int, description string, t reflect.Type) {
	key := strconv.Itoa(status)
	if op.Responses[key] == nil {
		op.Responses[key] = &huma.Response{Description: description, Content: map[string]*huma.MediaType{}}
	}
	op.Responses[key].Content[jsonType] = &huma.MediaType{Schema: s.schema(t)}
}

// reads adds a JSON body to the description of a route.
func (s *server) reads(op *huma.Operation, t reflect.Type, example any) {
	if op.RequestBody == nil {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{}}
	}
	op.RequestBody.Content[jsonType] = &huma.MediaType{Schema: s.schema(t), Example: example}
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = bodyMost
	}
}

// param describes a parameter of a route that huma does not read.
func param(in, name, description, example string) *huma.Param {
	p := &huma.Param{Name: name, In: in, Description: description, Required: in == "path", Schema: &huma.Schema{Type: huma.TypeString}}
	if example != "" {
		p.Example = example
	}
	return p
}

// direct adds a route that reads its request itself: one that is asked for often, or has a body that a parser of ours reads.
func (s *server) direct(op huma.Operation, handle func(http.ResponseWriter, *http.Request) error) {
	s.huma.OpenAPI().AddOperation(&op)
	s.routes.handle(&op, func(w http.ResponseWriter, r *http.Request) {
		if err := handle(w, r); err != nil {
			s.refusal(r.Context(), err).write(w)
		}
	})
}

// route adds a route whose parameters huma reads.
func route[I, O any](s *server, op huma.Operation, handle func(context.Context, *I) (*O, error)) {
	huma.Register(s.huma, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, s.refusal(ctx, err)
		}
		return out, nil
	})
}
