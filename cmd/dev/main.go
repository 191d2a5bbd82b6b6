// Dev runs the whole of Spout in one process: an embedded Redis and NATS, a worker, the bridge between them, a demo class and a small upstream with a limit.
// It sends a burst and shows how it leaves. Nothing survives its exit.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dev:", err)
		os.Exit(1)
	}
}
