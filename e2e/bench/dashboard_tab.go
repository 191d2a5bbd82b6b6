package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
)

// tab is what a browser does with the overview: it loads the page, reads the stream, and fetches parts again when it is told to.
type tab struct {
	*visitor
	path    string
	updates atomic.Int64 // patches in which a bucket moved
	moved   atomic.Int64 // buckets in them
	parts   atomic.Int64 // fetched again
	stop    func() error
}

// openTab is open until its stop is called.
func openTab(ctx context.Context, base, path string) (*tab, error) {
	t := &tab{visitor: newVisitor(base), path: path}
	page, _, err := t.get(ctx, path)
	if err != nil {
		return nil, err
	}
	found := lively.FindStringSubmatch(page)
	if found == nil {
		return nil, fmt.Errorf("%s is not live", path)
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := t.open(ctx, html.UnescapeString(found[1])) //nolint:bodyclose // where it is read
	if err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		defer stream.Body.Close() //nolint:errcheck // only read
		ended <- t.read(ctx, bufio.NewReader(stream.Body))
	}()
	t.stop = func() error {
		cancel()
		err := <-ended
		t.client.CloseIdleConnections()
		return err
	}
	return t, nil
}

// read reads events until ctx ends.
func (t *tab) read(ctx context.Context, stream *bufio.Reader) error {
	var fetching sync.WaitGroup
	defer fetching.Wait()
	event := ""
	for {
		line, err := stream.ReadString('\n')
		if ctx.Err() != nil {
			return nil // the tab is closed
		}
		if err != nil {
			return err
		}
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			event = strings.TrimSpace(name)
		}
		data, ok := strings.CutPrefix(line, "data: ")
		switch {
		case !ok:
		case event == "patch":
			if err := t.patch(data); err != nil {
				return err
			}
		case event == "part":
			var versions map[string]string
			if err := json.Unmarshal([]byte(data), &versions); err != nil {
				return err
			}
			for name := range versions {
				t.parts.Add(1)
				fetching.Go(func() { _, _, _ = t.get(ctx, t.path+"&part="+url.QueryEscape(name)) }) // the next event tells of it, too
			}
		case event == "now":
		default:
			return errors.New(event + ": " + data)
		}
	}
}

// patch counts the buckets that a patch moves: the ids of what is drawn of one are b-, 12 digits and a name.
func (t *tab) patch(data string) error {
	var changes map[string]map[string]string
	if err := json.Unmarshal([]byte(data), &changes); err != nil {
		return err
	}
	const id = len("b-") + 12
	seen := map[string]bool{}
	for name := range changes {
		if strings.HasPrefix(name, "b-") && len(name) >= id {
			seen[name[:id]] = true
		}
	}
	if len(seen) > 0 {
		t.updates.Add(1)
		t.moved.Add(int64(len(seen)))
	}
	return nil
}
