package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/spout-queue/spout/queue"
)

// apiSite is the real admin serve, asked over connections that stay open.
type apiSite struct {
	*bench
	binary string
}

// toll is what calls through the API come to: their pace as a share of the SDK's, calls a second, and the admin's processor time
// for each, in µs.
type toll struct{ share, perSecond, micros []float64 }

func (t *toll) String() string {
	return spanOf(t.share, "%.2f") + fmt.Sprintf("; %.0f/s, %.0f µs of the admin each", median(t.perSecond), median(t.micros))
}

// overHTTP: submissions through the API against the SDK's Submit and SubmitMany, pair by pair.
func overHTTP(ctx context.Context, b *bench) ([]row, error) {
	binary, err := b.buildAdmin(ctx)
	if err != nil {
		return nil, err
	}
	s := &apiSite{b, binary}
	var one, hundred, thousand toll
	for range b.rounds {
		if err := s.requests(ctx, &one); err != nil {
			return nil, err
		}
		if err := s.batches(ctx, &hundred, callers, 100); err != nil {
			return nil, err
		}
		if err := s.batches(ctx, &thousand, callers/4, 1000); err != nil {
			return nil, err
		}
	}
	return []row{
		{"POST /v1/jobs, 32 connections, against Submit", ">= 0.4", one.String()},
		{"POST /v1/jobs/batch of 100, 32 connections, against SubmitMany", ">= 0.4", hundred.String()},
		{"POST /v1/jobs/batch of 1,000, 8 connections, against SubmitMany", ">= 0.4", thousand.String()},
	}, nil
}

// calls are n calls of the SDK by some callers, and the same through the API.
type calls struct {
	by, n  int
	direct func(context.Context, *queue.Client, int) error
	path   string
	body   func(int) []byte
	status int
}

// against measures calls through the API and the same of the SDK.
func (s *apiSite) against(ctx context.Context, t *toll, c calls) error {
	client, err := s.fresh(ctx, perSecond("noop", 10_000))
	if err != nil {
		return err
	}
	own, err := inParallelBy(ctx, c.by, c.n, func(ctx context.Context, i int) error { return c.direct(ctx, client, i) })
	if err != nil {
		return err
	}
	if _, err = s.fresh(ctx, perSecond("noop", 10_000)); err != nil {
		return err
	}
	a, err := s.serve(ctx, s.binary)
	if err != nil {
		return err
	}
	defer a.stop()
	conns, err := dial(ctx, a.url)
	if err != nil {
		return err
	}
	defer conns.close()
	before := a.cpuTime()
	took, err := inParallelBy(ctx, c.by, c.n, func(_ context.Context, i int) error { return conns.post(c.path, c.body(i), c.status) })
	t.share = append(t.share, own.Seconds()/took.Seconds())
	t.perSecond = append(t.perSecond, float64(c.n)/took.Seconds())
	t.micros = append(t.micros, float64((a.cpuTime()-before).Microseconds())/float64(c.n))
	return err
}

// connections are open, and asked with next to no work of ours: it is the server that is measured, as by any generator of load.
type connections struct {
	host string
	free chan *connection
}

type connection struct {
	net.Conn
	in *bufio.Reader
}

func dial(ctx context.Context, address string) (*connections, error) {
	c := &connections{strings.TrimPrefix(address, "http://"), make(chan *connection, callers)}
	for range callers {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.host)
		if err != nil {
			c.close()
			return nil, err
		}
		c.free <- &connection{conn, bufio.NewReader(conn)}
	}
	return c, nil
}

func (c *connections) close() {
	close(c.free)
	for conn := range c.free {
		_ = conn.Close()
	}
}

func (c *connections) post(path string, body []byte, status int) error {
	conn := <-c.free
	defer func() { c.free <- conn }()
	head := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, c.host, len(body))
	if _, err := conn.Write(append(head, body...)); err != nil {
		return err
	}
	got, said, err := conn.answer()
	if err == nil && (got != status || bytes.Contains(said, []byte(`"rejected"`))) {
		err = fmt.Errorf("%d: %s", got, said)
	}
	return err
}

// answer reads the status and the body of an answer, and of its headers only the length that all of ours have.
func (c *connection) answer() (status int, body []byte, err error) {
	line, err := c.in.ReadSlice('\n')
	if rest, ok := bytes.CutPrefix(line, []byte("HTTP/1.1 ")); err == nil && ok && len(rest) > 3 {
		status, err = strconv.Atoi(string(rest[:3]))
	}
	length := -1
	for err == nil && len(line) > len("\r\n") {
		if line, err = c.in.ReadSlice('\n'); bytes.HasPrefix(line, []byte("Content-Length: ")) {
			length, err = strconv.Atoi(string(bytes.TrimSpace(line[len("Content-Length: "):])))
		}
	}
	if err != nil || length < 0 {
		return status, nil, errors.Join(err, fmt.Errorf("an answer of status %d and length %d", status, length))
	}
	body = make([]byte, length)
	_, err = io.ReadFull(c.in, body)
	return status, body, err
}

func (s *apiSite) requests(ctx context.Context, t *toll) error {
	return s.against(ctx, t, calls{
		callers, jobs, func(ctx context.Context, client *queue.Client, i int) error {
			_, err := client.Submit(ctx, job("noop", i%buckets))
			return err
		},
		"/v1/jobs", func(i int) []byte { return apiJob(nil, i%buckets) }, http.StatusAccepted,
	})
}

// batches are of so many jobs, of 10 buckets each.
func (s *apiSite) batches(ctx context.Context, t *toll, by, size int) error {
	return s.against(ctx, t, calls{
		by, 100_000 / size, func(ctx context.Context, client *queue.Client, i int) error { return submitSome(ctx, client, i, size) },
		"/v1/jobs/batch", func(i int) []byte { return apiBatch(i, size) }, http.StatusOK,
	})
}

// apiBatch is that of submitSome.
func apiBatch(i, size int) []byte {
	b := []byte(`{"jobs":[`)
	for n := range size {
		if n > 0 {
			b = append(b, ',')
		}
		b = apiJob(b, (i*10+n%10)%buckets)
	}
	return append(b, "]}"...)
}

func apiJob(b []byte, key int) []byte {
	return fmt.Appendf(b, `{"class":"noop","key":"k%d","type":"noop","payload":{"to":"somebody","n":1}}`, key)
}
