// Package transcript runs the commands' test scripts: readable shell transcripts (testscript) in testdata, each with a
// Redis of its own, whose address is in SPOUT_REDIS. Besides testscript's commands they have
//
//	exits STATUS COMMAND...   runs a command and checks its exit status
//	class NAME CAPACITY RATE [OVERFLOW]
//	                          stores a class
//	drain, resume CLASS       close a class to submissions, and open it
//	jobs CLASS KEY NUMBER     submits jobs with the ids 1, 2, 3, … and payloads {"n":1}, …
//	dead CLASS KEY NUMBER     the same, and lets each of them run and die of "503 from upstream"
//	getref                    puts the ref in standard output, of one JSON object, into $REF
//	redis COMMAND...          asks the Redis server something; the reply is standard output
//	until REPLY COMMAND...    asks it until the reply is this one
//	kill-redis, start-redis   end it, as kill -9 does, and start it again
//
// With UPDATE=1 in the environment golden files in scripts are written anew.
//
// Only tests import it. The server is handed in, so that it is not linked from here.
package transcript

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spout-queue/spout/queue"
)

// Server is a redis-server for one script.
type Server interface {
	Client(tb testing.TB) *redis.Client
	Kill()
	Restart()
}

// Run runs the scripts of a command. start starts a server and tells its address.
func Run(t *testing.T, start func(testing.TB) (server Server, address string)) {
	t.Helper()
	testscript.Run(t, params(start))
}

// RunAPI runs them with commands that go through the HTTP API: serve serves it for the Redis at an address, and its URL is in
// SPOUT_API. Then the condition [api] holds, for lines that are about Redis itself. It leaves golden files alone.
func RunAPI(t *testing.T, start func(testing.TB) (Server, string), serve func(tb testing.TB, address string) (url string)) {
	t.Helper()
	p := params(start)
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		tb, ok := env.T().(testing.TB)
		if err := setup(env); err != nil || !ok {
			return err
		}
		env.Setenv("SPOUT_API", serve(tb, env.Getenv("ADDR")))
		return nil
	}
	p.Condition = func(name string) (bool, error) { return conditionAPI(name, true) }
	p.UpdateScripts = false
	testscript.Run(t, p)
}

func conditionAPI(name string, holds bool) (bool, error) {
	if name != "api" {
		return false, fmt.Errorf("unknown condition %q", name)
	}
	return holds, nil
}

func params(start func(testing.TB) (server Server, address string)) testscript.Params {
	return testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE") != "",
		Setup: func(env *testscript.Env) error {
			tb, ok := env.T().(testing.TB)
			if !ok {
				return errors.New("testscript has no testing.TB")
			}
			server, address := start(tb)
			env.Values["fixture"] = &fixture{tb, server}
			env.Setenv("SPOUT_REDIS", "redis://"+address)
			env.Setenv("ADDR", address)
			env.Setenv("GORACE", "atexit_sleep_ms=10") // by default each command built with -race ends a second late
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":       exits,
			"class":       class,
			"drain":       operate(queue.Classes.Drain),
			"resume":      operate(queue.Classes.Resume),
			"jobs":        jobs,
			"dead":        dead,
			"getref":      getRef,
			"redis":       ask,
			"until":       until,
			"kill-redis":  func(ts *testscript.TestScript, _ bool, _ []string) { fixtureOf(ts).server.Kill() },
			"start-redis": func(ts *testscript.TestScript, _ bool, _ []string) { fixtureOf(ts).server.Restart() },
		},
		Condition: func(name string) (bool, error) { return conditionAPI(name, false) },
	}
}

type fixture struct {
	tb     testing.TB
	server Server
}

func fixtureOf(ts *testscript.TestScript) *fixture {
	f, ok := ts.Value("fixture").(*fixture)
	if !ok {
		ts.Fatalf("the script has no fixture")
	}
	return f
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		failed, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = failed.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

func class(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: class NAME CAPACITY RATE [OVERFLOW]")
	}
	capacity, err := strconv.Atoi(args[1])
	ts.Check(err)
	rate, err := queue.ParseRate(args[2])
	ts.Check(err)
	class := queue.NewClass(args[0], capacity, rate)
	if len(args) == 4 {
		class.Overflow = queue.Overflow(args[3])
	}
	_, err = fixtureOf(ts).open(ts).Classes().Put(context.Background(), class)
	ts.Check(err)
}

// operate is a command that closes or opens a class.
func operate(do func(queue.Classes, context.Context, string) error) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 1 {
			ts.Fatalf("usage: drain or resume CLASS")
		}
		ts.Check(do(fixtureOf(ts).open(ts).Classes(), context.Background(), args[0]))
	}
}

func (f *fixture) open(ts *testscript.TestScript) *queue.Client {
	client, err := queue.Open(context.Background(), f.server.Client(f.tb), queue.Options{})
	ts.Check(err)
	return client
}

func jobs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: jobs CLASS KEY NUMBER")
	}
	number, err := strconv.Atoi(args[2])
	ts.Check(err)
	client := fixtureOf(ts).open(ts)
	for i := range number {
		_, err := client.Submit(context.Background(), queue.Job{
			Class: args[0], Key: args[1], ID: strconv.Itoa(i + 1), Payload: fmt.Appendf(nil, `{"n":%d}`, i+1),
		})
		ts.Check(err)
	}
}

// dead leaves the line as it was found: empty.
func dead(ts *testscript.TestScript, neg bool, args []string) {
	jobs(ts, neg, args)
	number, err := strconv.Atoi(args[2])
	ts.Check(err)
	client := fixtureOf(ts).open(ts)
	outlets := make([]*queue.Outlet, client.Shards())
	for shard := range outlets {
		outlets[shard] = client.Outlet(rand.Text(), shard)
	}
	for deadline := time.Now().Add(10 * time.Second); number > 0; <-time.After(time.Millisecond) {
		for _, outlet := range outlets {
			number -= kill(ts, outlet, args[0])
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%d jobs do not depart", number)
		}
	}
}

// kill takes what may depart of a class, fails it for good and tells how many that were.
func kill(ts *testscript.TestScript, outlet *queue.Outlet, class string) int {
	got, err := outlet.Depart(context.Background(), queue.Ask{Want: queue.SettleMost, Classes: []string{class}})
	ts.Check(err)
	for _, d := range got.Jobs { // one by one, so that each dies at a time of its own
		_, err = outlet.Settle(context.Background(), []queue.Verdict{{
			Ref: d.Ref, Stamp: d.Stamp, Class: d.Class, Outcome: queue.Dead, Error: "503 from upstream", Due: d.Due, Started: d.Due,
		}})
		ts.Check(err)
	}
	return len(got.Jobs)
}

func getRef(ts *testscript.TestScript, _ bool, _ []string) {
	var object struct{ Ref string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &object))
	ts.Setenv("REF", object.Ref)
}

func ask(ts *testscript.TestScript, neg bool, args []string) {
	reply, err := fixtureOf(ts).do(args)
	if neg != (err != nil) {
		ts.Fatalf("%v: %v", args, err)
	}
	_, _ = fmt.Fprintln(ts.Stdout(), reply)
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REPLY COMMAND...")
	}
	f := fixtureOf(ts)
	for deadline := time.Now().Add(10 * time.Second); ; {
		reply, err := f.do(args[1:])
		ts.Check(err)
		if reply == args[0] {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%v is still %s", args[1:], reply)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (f *fixture) do(args []string) (string, error) {
	words := make([]any, len(args))
	for i, arg := range args {
		words[i] = arg
	}
	reply, err := f.server.Client(f.tb).Do(context.Background(), words...).Result()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return fmt.Sprint(reply), err
}
