package meter

import (
	"embed"
	"fmt"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var lua embed.FS

// scripts are the programs that run inside Redis: one per law, with a penalty and without, and one for several at once.
type scripts struct {
	plain, judged map[string]*redis.Script
	check, checks *redis.Script // the hot path of a bucket without a penalty, one and many
	all, reset    *redis.Script
}

func newScripts(clock string) *scripts {
	base := clock + source("prelude")
	s := &scripts{plain: map[string]*redis.Script{}, judged: map[string]*redis.Script{}}
	for _, law := range []string{"bucket", "fixed", "counter", "log"} {
		text := source(law)
		if law != "bucket" {
			text = source("units") + text
		}
		s.plain[law] = redis.NewScript(base + text + source("one") + "return one(" + law + ")\n")
		s.judged[law] = redis.NewScript(base + text + source("penalty") + source("judged") + "return judged(" + law + ")\n")
	}
	s.all = redis.NewScript(base + source("units") + source("bucket") + source("fixed") + source("counter") +
		source("log") + source("penalty") + source("all"))
	s.check = redis.NewScript(clock + source("check"))
	s.checks = redis.NewScript(clock + source("checks"))
	s.reset = redis.NewScript(source("reset"))
	return s
}

func source(name string) string {
	b, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(fmt.Sprintf("meter: embedded script %s: %v", name, err)) // a broken build, found by any test
	}
	return string(b)
}

// script names the law's function in the scripts, and numbers are what it takes.
func (w *law) script() (name string, numbers [3]int64) {
	switch w.kind {
	case fixedKind:
		if w.first {
			return "fixed", [3]int64{w.window, w.most, 1}
		}
		return "fixed", [3]int64{w.window, w.most, 0}
	case counterKind:
		return "counter", [3]int64{w.window, w.most, 0}
	case logKind:
		return "log", [3]int64{w.window, w.most, 0}
	default:
		return "bucket", [3]int64{w.unit, w.drain, w.full}
	}
}
