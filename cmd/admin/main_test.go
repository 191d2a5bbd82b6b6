package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spout-queue/spout/cmd/internal/transcript"
	"github.com/spout-queue/spout/internal/redistest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"admin": main})
}

func TestTranscripts(t *testing.T) {
	t.Parallel()
	transcript.Run(t, func(tb testing.TB) (transcript.Server, string) {
		tb.Helper()
		server := redistest.Start(tb)
		return server, server.Addr
	})
}
