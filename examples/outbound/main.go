// Outbound makes many calls to an API with a limit per tenant, in several ways, and tells what the API saw of each: calls it
// refused, the time it took in all, and whether each tenant's calls came in order.
//
// The API is a small server in this process: 30 calls in any 60 seconds per tenant, and no more than 5 in any one second. To
// be done within minutes, all of its times are divided by -scale; -scale 1 is real time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "outbound:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

// task is what has to be done: calls of some tenants, numbered per tenant.
type task struct {
	Tenants, Calls int // in all
	url            string
	limit          limit
	redis          string
}

func (t task) each() int { return t.Calls / t.Tenants }

// address of a tenant's n-th call.
func (t task) address(tenant, n int) string {
	return fmt.Sprintf("%s/tenants/%d?n=%d", t.url, tenant, n)
}

// way is one way to do it. It returns when all calls were answered well.
type way struct {
	name string
	do   func(context.Context, task) error
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("outbound", flag.ContinueOnError)
	var t task
	flags.StringVar(&t.redis, "redis", "127.0.0.1:6379", "address of Redis, or the path of its socket; a database of its own")
	flags.IntVar(&t.Calls, "calls", 2000, "calls in all")
	flags.IntVar(&t.Tenants, "tenants", 20, "tenants, which have the same number of calls each")
	scale := flags.Float64("scale", 10, "by how much the API's times are shorter than real ones")
	only := flags.String("only", "", "only the ways whose name has this in it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if t.Tenants < 1 || t.Calls < t.Tenants || *scale <= 0 {
		return errors.New("-tenants, -calls and -scale must be above zero, and there must be a call for each tenant")
	}
	t.limit = limit{calls: 30, window: scaled(time.Minute, *scale), burst: 5, moment: scaled(time.Second, *scale)}

	if _, err := fmt.Fprintf(out, "%d calls of %d tenants; the API takes %d calls in any %v per tenant, and %d in any %v (times are real ones / %g)\n"+
		"%28s  answers of 429     time  out of order\n",
		t.Tenants*t.each(), t.Tenants, t.limit.calls, t.limit.window, t.limit.burst, t.limit.moment, *scale, ""); err != nil {
		return err
	}
	for _, w := range ways() {
		if !strings.Contains(w.name, *only) {
			continue
		}
		row, err := measure(ctx, w, t)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if _, err := fmt.Fprintf(out, "%28s%16d%9v%14d\n", w.name, row.refused, row.took.Round(100*time.Millisecond), row.disorder); err != nil {
			return err
		}
	}
	return nil
}

func scaled(d time.Duration, by float64) time.Duration {
	return time.Duration(float64(d) / by).Round(time.Millisecond)
}

type row struct {
	refused, disorder int
	took              time.Duration
}

// measure does the task in one way, against an API that has seen nothing yet.
func measure(ctx context.Context, w way, t task) (row, error) {
	a := newAPI(t.limit)
	server := httptest.NewServer(a)
	defer server.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections() //nolint:errcheck,forcetypeassert // that is what it is
	t.url = server.URL
	began := time.Now()
	if err := w.do(ctx, t); err != nil {
		return row{}, err
	}
	took := time.Since(began)
	taken, refused, disorder := a.seen()
	if taken != t.Tenants*t.each() {
		return row{}, fmt.Errorf("the API took %d calls, not %d", taken, t.Tenants*t.each())
	}
	return row{refused: refused, disorder: disorder, took: took}, nil
}
