// Worker drains buckets: it takes jobs out at each bucket's rate and runs them.
package main

import (
	"context"
	"os"

	"github.com/redis/go-redis/v9/logging"
)

func main() {
	logging.Disable() // what go-redis would print reaches us as errors
	os.Exit(run(context.Background(), os.Args, os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}
