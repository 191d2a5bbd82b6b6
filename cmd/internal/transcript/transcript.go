// Package transcript runs the commands' test scripts: readable shell transcripts (testscript) in testdata, each with a
// Redis of its own, whose address is in SPOUT_REDIS. Besides testscript's commands they have
//
//	exits STATUS COMMAND...   runs a command and checks its exit status
//	class NAME CAPACITY RATE  stores a class
//	jobs CLASS KEY NUMBER     submits jobs with the ids 1, 2, 3, … and payloads {"n":1}, …
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
	testscript.Run(t, testscript.Params{
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
			"jobs":        jobs,
			"getref":      getRef,
			"redis":       ask,
			"until":       until,
			"kill-redis":  func(ts *testscript.TestScript, _ bool, _ []string) { fixtureOf(ts).server.Kill() },
			"start-redis": func(ts *testscript.TestScript, _ bool, _ []string) { fixtureOf(ts).server.Restart() },
		},
	})
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
	if neg || len(args) != 3 {
		ts.Fatalf("usage: class NAME CAPACITY RATE")
	}
	capacity, err := strconv.Atoi(args[1])
	ts.Check(err)
	rate, err := queue.ParseRate(args[2])
	ts.Check(err)
	_, err = fixtureOf(ts).open(ts).Classes().Put(context.Background(), queue.NewClass(args[0], capacity, rate))
	ts.Check(err)
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
