package api

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// serveDescription serves the description, written down once: it does not change while the program runs.
func (s *server) serveDescription() error {
	schemas := s.huma.OpenAPI().Components.Schemas.Map()
	delete(schemas, "ErrorModel") // huma's own: ours is Problem
	delete(schemas, "ErrorDetail")
	inJSON, err := json.Marshal(s.huma.OpenAPI())
	if err != nil {
		return fmt.Errorf("describe the API: %w", err)
	}
	older, err := s.huma.OpenAPI().Downgrade()
	if err != nil {
		return fmt.Errorf("describe the API as OpenAPI 3.0: %w", err)
	}
	inYAML, err := s.huma.OpenAPI().YAML()
	if err != nil {
		return fmt.Errorf("describe the API in YAML: %w", err)
	}
	for path, file := range map[string]struct {
		mime string
		body []byte
	}{
		"/openapi.json":     {"application/openapi+json", inJSON},
		"/openapi-3.0.json": {"application/openapi+json", older},
		"/openapi.yaml":     {"application/openapi+yaml", inYAML},
	} {
		s.routes.mux.HandleFunc("GET "+s.base+path, func(w http.ResponseWriter, _ *http.Request) {
			send(w, http.StatusOK, file.mime, file.body)
		})
	}
	return nil
}
