// Package draw draws SVG on the server: buckets with water in them, the pressure grid, small lines. Drawings are made of
// presentation attributes and classes only, so that a strict policy for styles holds, and what changes in them is told as
// attributes by element, so that they can be kept live without being drawn again. Names in them are escaped by html/template.
package draw

import (
	"bytes"
	"html/template"
	"strconv"
)

// Attributes are values by name of attribute, of elements by id.
type Attributes map[string]map[string]string

// render executes a template that is known to fit its data.
func render(t *template.Template, data any) template.HTML {
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		panic(err) // a mistake in the template
	}
	return template.HTML(b.String()) //nolint:gosec // html/template escaped it
}

// coordinate is a number with at most one decimal: finer is not seen, and would be sent.
func coordinate(f float64) string {
	return strconv.FormatFloat(float64(int64(f*10+0.5))/10, 'f', -1, 64)
}
