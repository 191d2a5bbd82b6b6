package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
)

// cutter stands between programs and a Redis. Every so often, Redis runs a script, and the connection is cut right before its
// reply is passed on: it was done, and nobody heard of it.
type cutter struct {
	addr, redis string
	every       int64
	scripts     atomic.Int64 // replies to scripts so far
	cuts        atomic.Int64
	open        sync.WaitGroup
}

// newCutter cuts at each every-th reply to a script, over all connections.
func newCutter(tb testing.TB, addr string, every int64) *cutter {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	c := &cutter{addr: l.Addr().String(), redis: addr, every: every}
	c.open.Go(func() { c.accept(l) })
	tb.Cleanup(func() {
		_ = l.Close()
		c.open.Wait() // its clients have ended: they are younger
	})
	return c
}

func (c *cutter) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.redis)
		if err != nil {
			_ = client.Close()
			continue
		}
		p := &pipe{cutter: c, client: client, server: server, asked: make(chan bool, 1<<16)}
		c.open.Go(p.commands)
		c.open.Go(p.replies)
	}
}

// pipe is one connection through a cutter.
type pipe struct {
	*cutter
	client, server net.Conn
	asked          chan bool // for each command that has a reply of its own: whether it is a script
}

func (p *pipe) close() {
	_ = p.client.Close()
	_ = p.server.Close()
}

func (p *pipe) commands() {
	defer p.close()
	in := bufio.NewReader(p.client)
	for {
		raw, err := readValue(in, nil)
		if err != nil {
			return
		}
		switch name := commandName(raw); {
		case strings.HasSuffix(name, "subscribe"): // RESP3 confirms it with a push
		default:
			p.asked <- name == "evalsha" || name == "eval"
		}
		if _, err := p.server.Write(raw); err != nil {
			return
		}
	}
}

func (p *pipe) replies() {
	defer p.close()
	out := bufio.NewReader(p.server)
	for {
		raw, err := readValue(out, nil)
		if err != nil {
			return
		}
		if raw[0] != '>' && <-p.asked && p.scripts.Add(1)%p.every == 0 {
			p.cuts.Add(1)
			return
		}
		if _, err := p.client.Write(raw); err != nil {
			return
		}
	}
}

// commandName is the first word of a command, an array of strings, in small letters.
func commandName(raw []byte) string {
	parts := bytes.SplitN(raw, []byte("\r\n"), 4) // *n, $m, name, …
	if len(parts) < 3 {
		return ""
	}
	return strings.ToLower(string(parts[2]))
}

// readValue reads one value of RESP3 and appends it to raw as it is.
func readValue(r *bufio.Reader, raw []byte) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	raw = append(raw, line...)
	n, _ := strconv.Atoi(strings.TrimSpace(string(line[1:]))) // what has no length has no use for it
	switch line[0] {
	case '$', '=', '!': // strings
		if n < 0 {
			return raw, nil
		}
		body := make([]byte, n+len("\r\n"))
		_, err = io.ReadFull(r, body)
		return append(raw, body...), err
	case '%': // a map
		n *= 2
	case '|': // attributes, and then the value itself
		n = 2*n + 1
	case '*', '~', '>':
	default:
		return raw, nil
	}
	for range n {
		if raw, err = readValue(r, raw); err != nil {
			return nil, err
		}
	}
	return raw, nil
}

func TestCutterCutsRepliesToScripts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := newCutter(t, server.Addr, 3)
	rdb := redis.NewClient(&redis.Options{Addr: c.addr, MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	sub := rdb.Subscribe(t.Context(), "news")
	t.Cleanup(func() { _ = sub.Close() })
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 9; i++ {
		n, err := rdb.Eval(t.Context(), "return redis.call('INCR', KEYS[1])", []string{"k"}).Int()
		if cut := i%3 == 0; cut != errors.Is(err, io.EOF) || !cut && n != i {
			t.Errorf("script %d: %d, %v", i, n, err)
		}
		if got := rdb.Get(t.Context(), "k").Val(); got != fmt.Sprint(i) {
			t.Errorf("after script %d: %s", i, got)
		}
	}
	if err := rdb.Publish(t.Context(), "news", "still here").Err(); err != nil {
		t.Fatal(err)
	}
	if m, err := sub.ReceiveMessage(t.Context()); err != nil || m.Payload != "still here" {
		t.Errorf("message through the cutter: %v, %v", m, err)
	}
}
