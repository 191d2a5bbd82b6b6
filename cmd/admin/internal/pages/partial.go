package pages

import "net/http"

// partial is the status of an answer to a form. Where a script asked for a part of the page, a refusal is an answer like any other: a
// browser would write everything else into its console as an error.
func partial(r *http.Request, status int) int {
	if r.Header.Get("HX-Request") != "" {
		return http.StatusOK
	}
	return status
}
