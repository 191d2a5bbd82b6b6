package main

import (
	"context"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"sync/atomic"
	"time"
)

// visitor asks as a browser does, compressed, and knows what came over the wire.
type visitor struct {
	client *http.Client
	base   string
	bytes  atomic.Int64 // read, heads of answers included
}

func newVisitor(base string) *visitor {
	v := &visitor{base: base}
	v.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return &weighed{conn, &v.bytes}, err
		},
	}}
	return v
}

// weighed counts what is read.
type weighed struct {
	net.Conn
	bytes *atomic.Int64
}

// Read is [net.Conn].
func (w *weighed) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.bytes.Add(int64(n))
	return n, err
}

// get reads a path; net/http asks for gzip and opens it. first is when the first byte of the answer came.
func (v *visitor) get(ctx context.Context, path string) (body string, first time.Duration, err error) {
	began := time.Now()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { first = time.Since(began) }})
	resp, err := v.open(ctx, path)
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(resp.Body)
	return string(text), first, err
}

func (v *visitor) open(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.base+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := v.client.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return resp, err
}

var (
	linked = regexp.MustCompile(`<(?:link|script|img)\b[^>]*?\b(?:href|src)="([^"]+)"`)
	fed    = regexp.MustCompile(`\bdata-url="([^"]+)"`) // what a page's script reads first
	styled = regexp.MustCompile(`url\(["']?([^"')]+)`)
	lively = regexp.MustCompile(`\bdata-live="([^"]+)"`)
)

// weigh reads a page and everything that it has a browser read, each once; the stream is not in it. page is the page's own part.
func weigh(ctx context.Context, base, path string) (all, page int64, err error) {
	v := newVisitor(base)
	defer v.client.CloseIdleConnections()
	read := map[string]bool{path: true}
	text, _, err := v.get(ctx, path)
	if err != nil {
		return 0, 0, err
	}
	page = v.bytes.Load()
	var list []string
	for _, pattern := range []*regexp.Regexp{linked, fed} {
		for _, found := range pattern.FindAllStringSubmatch(text, -1) {
			list = append(list, html.UnescapeString(found[1]))
		}
	}
	for _, file := range list {
		if read[file] {
			continue
		}
		read[file] = true
		text, _, err := v.get(ctx, file)
		if err != nil {
			return 0, 0, err
		}
		if more := styled.FindString(text); more != "" && regexp.MustCompile(`\.css$`).MatchString(file) {
			return 0, 0, fmt.Errorf("%s has a browser read %s), which is not weighed", file, more)
		}
	}
	return v.bytes.Load(), page, nil
}
