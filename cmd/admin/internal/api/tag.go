package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

const (
	// tagBytes of a hash are its tag.
	tagBytes = 9
	// ifNoneMatch has the tags of what somebody has.
	ifNoneMatch = "If-None-Match"
)

// canBeTagged adds to the description of a route that its answer has a tag.
func canBeTagged(op *huma.Operation) {
	op.Parameters = append(op.Parameters, param("header", ifNoneMatch, "The ETag of an answer that you have: when it would be the same, it is 304.", ""))
	op.Responses["304"] = &huma.Response{Description: "It is what you have."}
}

// tagged puts a tag of what is said on a good answer, and leaves it out for somebody who has it.
func tagged(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		k := &kept{ResponseWriter: w, status: http.StatusOK}
		handle(k, r)
		if k.status == http.StatusOK {
			tag := tagOf(w.Header().Get("ETag"), k.body.Bytes())
			w.Header().Set("ETag", tag)
			if has(r.Header[ifNoneMatch], tag) {
				w.Header().Del("Content-Type")
				w.Header().Del("Content-Length")
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
		w.WriteHeader(k.status)
		_, _ = k.body.WriteTo(w) // a client that is gone reads nothing
	}
}

// kept is an answer that is not sent yet.
type kept struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader is [http.ResponseWriter].
func (k *kept) WriteHeader(status int) { k.status = status }

// Write is [http.ResponseWriter].
func (k *kept) Write(b []byte) (int, error) { return k.body.Write(b) }

// Unwrap is for [http.ResponseController].
func (k *kept) Unwrap() http.ResponseWriter { return k.ResponseWriter }

// tagOf is a tag of what is said, behind the version that it has.
func tagOf(version string, body []byte) string {
	sum := sha256.Sum256(body)
	tag := base64.RawURLEncoding.EncodeToString(sum[:tagBytes])
	if version != "" {
		tag = strings.Trim(version, `"`) + "-" + tag
	}
	return `"` + tag + `"`
}

// has tells whether a tag is among those of a header.
func has(header []string, tag string) bool {
	for one := range strings.SplitSeq(strings.Join(header, ","), ",") {
		if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
			return true
		}
	}
	return false
}
