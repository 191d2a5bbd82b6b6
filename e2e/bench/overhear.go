package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
)

// commands are those that Redis ran: sent ones, and what scripts called on their behalf.
type commands struct{ sent, inside int64 }

func (c commands) minus(was commands) commands {
	return commands{c.sent - was.sent, c.inside - was.inside}
}

func (c commands) String() string {
	return fmt.Sprintf("%d sent, %d with those inside scripts", c.sent, c.sent+c.inside)
}

// overheard counts the commands of all who come to Redis over TCP; this program's own come by the socket.
type overheard struct {
	net.Conn
	mu    sync.Mutex
	count commands
}

// overhear asks Redis what it is asked, with MONITOR: a real admin is watched, with nothing added to it.
func (b *bench) overhear(ctx context.Context) (*overheard, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socketIn(b.dir))
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, "MONITOR\r\n"); err != nil {
		return nil, err
	}
	o := &overheard{Conn: conn}
	go o.listen(bufio.NewReader(conn))
	return o, nil
}

// listen counts until the connection is closed. A script is followed by what it calls: Redis does nothing in between.
func (o *overheard) listen(from *bufio.Reader) {
	theirs := false
	for {
		line, cut, err := from.ReadLine()
		if err != nil {
			return
		}
		_, rest, found := bytes.Cut(line, []byte(" [0 "))
		who, _, _ := bytes.Cut(rest, []byte("]"))
		for cut && err == nil {
			_, cut, err = from.ReadLine()
		}
		if !found {
			continue
		}
		inside := string(who) == "lua"
		if !inside {
			theirs = !bytes.HasPrefix(who, []byte("unix:"))
		}
		o.note(theirs, inside)
	}
}

func (o *overheard) note(theirs, inside bool) {
	if !theirs {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if inside {
		o.count.inside++
		return
	}
	o.count.sent++
}

func (o *overheard) soFar() commands {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count
}
