package handlers

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strings"
	"sync"
	"unicode/utf8"
)

// body reads the body of a request and closes it, whatever happens. The end of the
// request's context closes it too, so that a read that waits comes back.
func (t *Transport) body(req *http.Request) ([]byte, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return nil, nil
	}
	var once sync.Once
	closeBody := func() { once.Do(func() { _ = req.Body.Close() }) } // what matters was read
	defer closeBody()
	most := cmp.Or(max(t.MaxBody, 0), defaultMaxBody)
	if req.ContentLength > most {
		return nil, tooLong(most)
	}
	stop := context.AfterFunc(req.Context(), closeBody)
	defer stop()
	body, err := io.ReadAll(io.LimitReader(req.Body, most+1))
	switch {
	case req.Context().Err() != nil:
		return nil, gaveUp(req.Context(), "not sent")
	case err != nil:
		return nil, fmt.Errorf("read the request's body: %w", err)
	case int64(len(body)) > most:
		return nil, tooLong(most)
	case req.ContentLength > 0 && int64(len(body)) != req.ContentLength:
		return nil, fmt.Errorf("the request's body has %d bytes, its ContentLength says %d", len(body), req.ContentLength)
	}
	return body, nil
}

func tooLong(most int64) error {
	return fmt.Errorf("the request's body is longer than %d bytes; raise MaxBody of the transport, and max_payload of the class", most)
}

// callPayload is the payload of a job of the type [HTTPCallType].
type callPayload struct {
	Method     string            `json:"method,omitempty"`
	URL        string            `json:"url"`
	Headers    map[string]string `json:"headers,omitempty"`
	Body       string            `json:"body,omitempty"`
	BodyBase64 string            `json:"body_base64,omitempty"`
	Accept     string            `json:"accept,omitempty"`
}

// alwaysText is the most bytes of a text that are kept as such, for people to read, even
// where what JSON must escape makes it longer than base64.
const alwaysText = 16 << 10

// setBody takes in a body, as text if it is that.
func (p *callPayload) setBody(body []byte) {
	text := string(body)
	if utf8.Valid(body) && (len(text) <= alwaysText || jsonLength(text) <= base64.StdEncoding.EncodedLen(len(text))) {
		p.Body = text
	} else {
		p.BodyBase64 = base64.StdEncoding.EncodeToString(body)
	}
}

// payload describes a request as a job does. What the handler would refuse is refused
// here, where the caller hears of it.
func (t *Transport) payload(req *http.Request, body []byte) ([]byte, error) {
	if req.URL == nil {
		return nil, errors.New("the request has no URL")
	}
	if req.Host != "" && req.Host != req.URL.Host {
		return nil, fmt.Errorf("the request's Host %q is not that of its url, and a job cannot call one by the name of the other",
			clip(req.Host, maxURL))
	}
	if len(req.Trailer) > 0 {
		return nil, errors.New("the request has trailers, which a job cannot send")
	}
	if !t.AllowCredentials {
		if err := checkCredentials(req); err != nil {
			return nil, err
		}
	}
	headers, err := forwarded(req.Header)
	if err != nil {
		return nil, err
	}
	target := *req.URL
	if target.User != nil { // http.Client has made a header of it already
		target.User = nil
	}
	p := callPayload{Method: req.Method, URL: target.String(), Headers: headers, Accept: "any"}
	p.setBody(body)
	payload := marshal(p)
	return payload, CheckCall(payload)
}

// forwarded returns the headers that go along with a job: all but those that belong
// to the connection between client and server. Several values of one name become a
// list, as RFC 9110 has it.
func forwarded(header http.Header) (map[string]string, error) {
	if header.Get("Upgrade") != "" {
		return nil, errors.New("the request asks for an upgrade of its connection, which a job has not")
	}
	hop := map[string]bool{}
	for _, list := range header["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			hop[textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	headers := make(map[string]string, len(header))
	for name, values := range header {
		canonical := http.CanonicalHeaderKey(name)
		if hop[canonical] || ownedByConnection(canonical) || len(values) == 0 {
			continue
		}
		separator := ", "
		if canonical == "Cookie" {
			separator = "; "
		}
		headers[canonical] = strings.Join(values, separator)
	}
	return headers, nil
}

// hostKey is the key of a request's bucket unless the caller says otherwise.
func hostKey(req *http.Request) string { return hostOf(req.URL) }
