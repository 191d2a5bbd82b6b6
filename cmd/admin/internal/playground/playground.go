// Package playground lets people try the six algorithms of package meter on the same clicks. All of it is in memory: nothing
// that anybody does here counts against a real limit.
package playground

import (
	"container/list"
	"sync"
	"time"
)

// The bounds of what is kept: the visitors that came last, and none that has been away for Idle.
const (
	Most = 256
	Idle = 30 * time.Minute
)

// Playground has the meters of each visitor. It is safe for concurrent use.
type Playground struct {
	mu      sync.Mutex
	byName  map[string]*list.Element
	byVisit *list.List // of *visit, the latest first
}

type visit struct {
	name  string
	at    time.Time
	table *Table
}

// New makes a playground with nobody in it.
func New() *Playground { return &Playground{byName: map[string]*list.Element{}, byVisit: list.New()} }

// Table returns the meters of a visitor, fresh ones for a name that is new or was forgotten.
func (p *Playground) Table(name string) *Table {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.forget(now)
	if e, ok := p.byName[name]; ok {
		v := of(e)
		v.at = now
		p.byVisit.MoveToFront(e)
		return v.table
	}
	v := &visit{name, now, newTable()}
	p.byName[name] = p.byVisit.PushFront(v)
	p.forget(now)
	return v.table
}

// forget drops who is too many, or has been away for too long.
func (p *Playground) forget(now time.Time) {
	for e := p.byVisit.Back(); e != nil; e = p.byVisit.Back() {
		if p.byVisit.Len() <= Most && now.Sub(of(e).at) < Idle {
			return
		}
		delete(p.byName, of(e).name)
		p.byVisit.Remove(e)
	}
}

func of(e *list.Element) *visit {
	v, _ := e.Value.(*visit) // nothing else is put in
	return v
}
