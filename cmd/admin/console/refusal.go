package console

import (
	"encoding/json"
	"html/template"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/api"
	"github.com/spout-queue/spout/cmd/admin/internal/pages"
	"github.com/spout-queue/spout/queue"
)

// refusal is an answer of the console itself: nobody behind it was asked. It is a problem document (RFC 9457), and a
// small page for browsers.
type refusal int

const (
	none refusal = iota
	notFound
	unauthenticated
	denied
	tooManyWrong
	wrongHost
	crossSite
	tooLarge
	tooDeep
	busy
	cutShort
	broken
)

// said is what a refusal says.
type said struct {
	status         int
	reason, detail string
}

func (p refusal) says() said {
	switch p {
	case notFound:
		return said{404, "not_found", "there is nothing here"}
	case unauthenticated:
		return said{401, "unauthenticated", "this takes a token, as Authorization: Bearer, or a login; see admin token new"}
	case denied:
		return said{403, "denied", "you may not be here"}
	case tooManyWrong:
		return said{429, "too_many_wrong", "too many wrong credentials came from where you are; come back later, or with right ones"}
	case wrongHost:
		return said{421, "wrong_host", "this server is not known by the name that it was asked by; if it should be, start it with --host NAME"}
	case crossSite:
		return said{403, "cross_site", "a page of another site asked for a change"}
	case tooLarge:
		return said{413, string(queue.ReasonTooLarge), "the body is larger than anything that is taken here"}
	case tooDeep:
		return said{400, string(queue.ReasonInvalid), "the JSON is nested deeper than " + strconv.Itoa(depthMost) + " levels"}
	case busy:
		return said{503, string(queue.ReasonUnavailable), "too much is being sent at once; come back in a second"}
	case cutShort:
		return said{400, string(queue.ReasonInvalid), "the body ended too early, or too late"}
	case none, broken:
	}
	return said{500, "internal", "something broke; the log of the server tells what, by the request id"}
}

// refuse answers.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, p refusal) { c.say(w, r, p.says()) }

// say answers with a problem document, or with a page where somebody looks at pages.
func (c *Console) say(w http.ResponseWriter, r *http.Request, p said) {
	w.Header().Set("Cache-Control", "no-store")
	if to := c.room(r.URL.Path); to == pagesRoom || to == loginRoom {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.Header.Get("Hx-Request") != "" {
			pages.Aside(w.Header())
		}
		w.WriteHeader(p.status)
		_ = refusalPage().Execute(w, map[string]any{"Status": p.status, "Title": http.StatusText(p.status), "Detail": p.detail, "Base": c.base})
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.status)
	_ = json.NewEncoder(w).Encode(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Reason string `json:"reason"`
	}{"urn:spout:problem:" + p.reason, api.Title(p.reason), p.status, p.detail, p.reason})
}

func refusalPage() *template.Template {
	return template.Must(template.New("refusal").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Status}} {{.Title}} · Spout</title></head>
<body><main><h1>{{.Title}}</h1><p id="failure" class="notice bad" role="alert">{{.Detail}}</p><p><a href="{{.Base}}/">Spout</a></p></main></body></html>
`))
}

func retryAfter(w http.ResponseWriter, d time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(d.Seconds())))))
}
