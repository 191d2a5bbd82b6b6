package main

import (
	"context"
	"io"

	"github.com/spout-queue/spout/cmd/internal/command"
)

// run is the whole program: it returns the exit status.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &command.Program{
		Name: "producer", Usage: "put jobs into buckets",
		Getenv: getenv, Stdin: stdin, Stdout: stdout, Stderr: stderr,
	}
	return p.Run(ctx, args, enqueue(p), bulkCommand(p), bridgeCommand(p))
}
