// Command admin looks after classes, buckets and jobs, and says what is wrong with a Redis.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	logging.Disable()            // what go-redis would print reaches us as errors
	os.Exit(run(ctx, os.Args, os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}
