package console

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// doorman bounds how many connections are open at once. A new one is always let in: one that says nothing goes instead.
type doorman struct {
	most int

	mu    sync.Mutex
	open  map[net.Conn]*list.Element // in the list of its state, nil for a busy one
	fresh list.List                  // that never sent a whole request head, the oldest first
	idle  list.List                  // between two requests, the longest resting first
}

func newDoorman(most int) *doorman { return &doorman{most: most, open: map[net.Conn]*list.Element{}} }

// state is told by the server how each connection is.
func (d *doorman) state(conn net.Conn, is http.ConnState) {
	goes := d.note(conn, is)
	if secure, ok := goes.(*tls.Conn); ok {
		goes = secure.NetConn() // without a farewell, which could take a while
	}
	if goes != nil {
		_ = goes.Close() // the server finds out by itself
	}
}

// note keeps the lists, and says which connection has to go.
func (d *doorman) note(conn net.Conn, is http.ConnState) (goes net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remove(conn)
	switch is {
	case http.StateNew:
		d.open[conn] = d.fresh.PushBack(conn)
	case http.StateIdle:
		d.open[conn] = d.idle.PushBack(conn)
	case http.StateActive:
		d.open[conn] = nil
	case http.StateClosed, http.StateHijacked:
	}
	if len(d.open) <= d.most {
		return nil
	}
	return d.choose(conn)
}

// remove forgets where a connection was.
func (d *doorman) remove(conn net.Conn) {
	if at := d.open[conn]; at != nil {
		d.fresh.Remove(at) // each list leaves alone what is in the other
		d.idle.Remove(at)
	}
	delete(d.open, conn)
}

// choose takes the one out that matters least; the newest itself, when all others are busy.
func (d *doorman) choose(newest net.Conn) net.Conn {
	goes := newest
	if rests := d.idle.Front(); rests != nil {
		goes = rests.Value.(net.Conn) //nolint:errcheck,forcetypeassert // all are
	}
	if silent := d.fresh.Front(); silent != nil && silent.Value != newest {
		goes = silent.Value.(net.Conn) //nolint:errcheck,forcetypeassert // all are
	}
	d.remove(goes)
	return goes
}
