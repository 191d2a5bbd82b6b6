package handlers_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// names is a name server within the test. A name that was asked for more often than it has answers keeps the last one.
type names struct {
	mu      sync.Mutex
	answers map[string][]string // addresses, in turn, by name
	asked   map[string]int
}

func newNames(answers map[string][]string) *names {
	return &names{answers: answers, asked: map[string]int{}}
}

func (n *names) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe() // no packets, so each message has its length before it
		wg.Go(func() { n.serve(far) })
		return near, nil
	}}
}

func (n *names) serve(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // a pipe
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		reply := n.reply(query)
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// reply answers the one question of a query with at most one address.
func (n *names) reply(query []byte) []byte {
	var labels []string
	at := 12
	for query[at] != 0 {
		length := int(query[at])
		labels = append(labels, string(query[at+1:at+1+length]))
		at += 1 + length
	}
	kind := binary.BigEndian.Uint16(query[at+1:])
	reply := append([]byte{}, query[:at+5]...)
	copy(reply[2:12], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
	ip, known := n.address(strings.Join(labels, "."), kind)
	switch {
	case !known:
		reply[3] |= 3 // no such name
	case ip.IsValid():
		reply[7] = 1
		reply = append(reply, 0xc0, 12)
		reply = binary.BigEndian.AppendUint16(reply, kind)
		reply = append(reply, 0, 1, 0, 0, 0, 0)
		reply = binary.BigEndian.AppendUint16(reply, uint16(len(ip.AsSlice())))
		reply = append(reply, ip.AsSlice()...)
	}
	return reply
}

const (
	typeA    = 1
	typeAAAA = 28
)

func (n *names) address(name string, kind uint16) (ip netip.Addr, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	list, known := n.answers[strings.ToLower(name)]
	if !known || kind != typeA && kind != typeAAAA {
		return ip, known
	}
	ip = netip.MustParseAddr(list[min(n.asked[name], len(list)-1)])
	if ip.Is4() != (kind == typeA) {
		return netip.Addr{}, true
	}
	n.asked[name]++
	return ip, true
}
