package handlers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hibiken/asynq"
)

// Mux is an [asynq.Handler] that hands each task to the handler registered for
// exactly its type. Unlike [asynq.ServeMux] it never matches a prefix: a type
// that is misspelt fails at once instead of landing in another handler.
//
// The zero value is an empty mux, ready for use. All methods are safe for
// concurrent use.
type Mux struct {
	mu     sync.RWMutex
	byType map[string]asynq.Handler
}

// NewMux returns an empty mux.
func NewMux() *Mux { return new(Mux) }

// Handle registers h for tasks of type typ. Like the muxes of asynq and net/http
// it panics when typ is blank, h is nil, or typ has a handler already: each is a
// mistake in the program that registers, found at its first start.
func (m *Mux) Handle(typ string, h asynq.Handler) {
	if strings.TrimSpace(typ) == "" {
		panic("handlers: blank task type")
	}
	if h == nil {
		panic(fmt.Sprintf("handlers: nil handler for type %q", typ))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, taken := m.byType[typ]; taken {
		panic(fmt.Sprintf("handlers: two handlers for type %q", typ))
	}
	if m.byType == nil {
		m.byType = make(map[string]asynq.Handler)
	}
	m.byType[typ] = h
}

// HandleFunc registers the function f for tasks of type typ. It panics as
// [Mux.Handle] does.
func (m *Mux) HandleFunc(typ string, f func(context.Context, *asynq.Task) error) {
	if f == nil {
		panic(fmt.Sprintf("handlers: nil handler for type %q", typ))
	}
	m.Handle(typ, asynq.HandlerFunc(f))
}

// Types returns the registered types, sorted.
func (m *Mux) Types() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Sorted(maps.Keys(m.byType))
}

// ProcessTask runs the handler registered for the type of task and returns its
// error. For a type without a handler it returns an error that wraps
// [ErrUnknownType] and [asynq.SkipRetry], names the type and lists what this mux
// handles.
func (m *Mux) ProcessTask(ctx context.Context, task *asynq.Task) error {
	m.mu.RLock()
	h, ok := m.byType[task.Type()]
	m.mu.RUnlock()
	if !ok {
		return m.unknown(task.Type())
	}
	return h.ProcessTask(ctx, task)
}

func (m *Mux) unknown(typ string) error {
	types := m.Types()
	for i, t := range types {
		types[i] = fmt.Sprintf("%q", t)
	}
	list := "nothing"
	if len(types) > 0 {
		list = strings.Join(types, ", ")
	}
	return permanent(ErrUnknownType, "no handler for type %q; this worker handles %s", clip(typ, maxName), list)
}
