package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/handlers"
)

func TestMuxRunsTheHandlerOfExactlyTheType(t *testing.T) {
	t.Parallel()
	errMail, errMailAll := errors.New("mail"), errors.New("mail:all")
	m := handlers.NewMux()
	m.HandleFunc("mail", func(context.Context, *asynq.Task) error { return errMail })
	m.HandleFunc("mail:all", func(context.Context, *asynq.Task) error { return errMailAll })

	for typ, want := range map[string]error{
		"mail": errMail, "mail:all": errMailAll,
		"mail:": handlers.ErrUnknownType, "mail:all:x": handlers.ErrUnknownType, "Mail": handlers.ErrUnknownType, "": handlers.ErrUnknownType,
	} {
		if err := m.ProcessTask(t.Context(), asynq.NewTask(typ, nil)); !errors.Is(err, want) {
			t.Errorf("ProcessTask(%q) = %v, want %v", typ, err, want)
		}
	}
	if diff := cmp.Diff([]string{"mail", "mail:all"}, m.Types()); diff != "" {
		t.Errorf("Types() (-want +got):\n%s", diff)
	}
}

func TestMuxNamesWhatItHandles(t *testing.T) {
	t.Parallel()
	var m handlers.Mux
	err := m.ProcessTask(t.Context(), asynq.NewTask("x:y", nil))
	if got, want := fmt.Sprint(err), `no handler for type "x:y"; this worker handles nothing`; got != want {
		t.Errorf("empty mux: %q, want %q", got, want)
	}

	m.HandleFunc("mail", func(context.Context, *asynq.Task) error { return nil })
	m.Handle(handlers.HTTPCallType, newCall(t, handlers.HTTPOptions{}))
	err = m.ProcessTask(t.Context(), asynq.NewTask("x:y", nil))
	if got, want := fmt.Sprint(err), `no handler for type "x:y"; this worker handles "http:call", "mail"`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(err, asynq.SkipRetry) {
		t.Error("an unknown type is not permanent")
	}
}

func TestMuxPanicsOnBadRegistration(t *testing.T) {
	t.Parallel()
	nop := func(context.Context, *asynq.Task) error { return nil }
	for name, register := range map[string]func(*handlers.Mux){
		"blank":        func(m *handlers.Mux) { m.HandleFunc(" ", nop) },
		"nil handler":  func(m *handlers.Mux) { m.Handle("b", nil) },
		"nil function": func(m *handlers.Mux) { m.HandleFunc("b", nil) },
		"twice":        func(m *handlers.Mux) { m.HandleFunc("a", nop) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := handlers.NewMux()
			m.HandleFunc("a", nop)
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
				if diff := cmp.Diff([]string{"a"}, m.Types()); diff != "" {
					t.Errorf("Types() after the panic (-want +got):\n%s", diff)
				}
			}()
			register(m)
		})
	}
}

func TestMuxIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	m := handlers.NewMux()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			m.HandleFunc(fmt.Sprint("t", i), func(context.Context, *asynq.Task) error { return nil })
			if err := m.ProcessTask(t.Context(), asynq.NewTask(fmt.Sprint("t", i), nil)); err != nil {
				t.Error(err)
			}
			m.Types()
		})
	}
	wg.Wait()
	if got := len(m.Types()); got != 8 {
		t.Errorf("%d types, want 8", got)
	}
}
