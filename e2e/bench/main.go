// Bench measures Spout side by side with asynq on a redis-server of its own and prints a table: what was measured, what must
// be reached, what was reached. Figures are ratios within one run, since the machine is shared; nothing here fails a build.
//
//	go run ./e2e/bench            all rows, about ten minutes
//	go run ./e2e/bench -only pace rows whose name contains "pace"
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

func main() {
	only := flag.String("only", "", "measure only rows whose name contains this")
	rounds := flag.Int("rounds", 3, "repeat comparisons this often and print the median")
	shards := flag.Int("shards", 1, "shards of the throughput rows; idle has 4")
	seconds := flag.Duration("for", 10*time.Second, "length of one pace run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if addr := os.Getenv(victimEnv); addr != "" {
		_ = victim(ctx, addr) // it is there to be killed
		return
	}
	if os.Getenv(outboundEnv) != "" {
		_ = serveOutbound(ctx) // until it is killed
		return
	}
	if err := run(ctx, *only, plan{rounds: *rounds, pace: *seconds, shards: *shards}); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to clean up
	}
}

// plan says how much to measure.
type plan struct {
	rounds int
	pace   time.Duration
	shards int
}

// row is one line of the table.
type row struct{ what, must, got string }

// group measures some rows.
type group struct {
	name    string
	measure func(context.Context, *bench) ([]row, error)
}

func run(ctx context.Context, only string, p plan) error {
	out := table.NewWriter()
	out.SetOutputMirror(os.Stdout)
	out.AppendHeader(table.Row{"what", "must reach", "measured"})
	for _, g := range []group{
		{"processed", processed},
		{"submit", submitted},
		{"pace", pace},
		{"lateness", lateness},
		{"spread", spread},
		{"latency", latency},
		{"idle", idle},
		{"scale", scale},
		{"keys", keysLeft},
		{"dead", dead},
		{"holds", holds},
		{"crash", crash},
		{"meter-redis", metersOnRedis},
		{"meter-memory", metersInMemory},
		{"meter-denials", denials},
		{"meter-bytes", meterBytes},
		{"metrics", metrics},
		{"nats", overNATS},
		{"http", overHTTP},
		{"dashboard", dashboard},
		{"outbound", outbound},
		{"window", window},
	} {
		if !strings.Contains(g.name, only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring %s…\n", g.name)
		b, err := newBench(ctx, p)
		if err != nil {
			return err
		}
		rows, err := g.measure(ctx, b)
		b.close()
		if err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		for _, r := range rows {
			out.AppendRow(table.Row{r.what, r.must, r.got})
		}
	}
	out.Render()
	return ctx.Err()
}
