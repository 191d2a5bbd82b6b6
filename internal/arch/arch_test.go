package arch_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// driver is what queue and meter may know besides the standard library.
const driver = `|^github.com/(redis/go-redis|prometheus/client_golang)/`

// embedded are the servers that run inside of a test or of cmd/dev.
const embedded = `/miniredis(/|$)|/nats-server/|^spout/internal/(redis|nats)test$`

// A rule holds for the packages that pkgs matches and except does not. Ours
// are written spout/queue.
var rules = []struct {
	why          string
	pkgs, except string
	only         string // every import outside the standard library matches it
	never        string // no import matches it
	linked       bool   // judge all that ends up in the binary, not only the imports
}{
	{
		why:  "queue knows Redis and Prometheus, nothing else, and no sibling",
		pkgs: `^spout/queue(/|$)`, only: `^spout/(queue|internal)(/|$)` + driver,
	},
	{
		why:  "meter knows Redis and Prometheus, nothing else, and no sibling",
		pkgs: `^spout/meter(/|$)`, only: `^spout/(meter|internal)(/|$)` + driver,
	},
	{
		why:  "what queue and meter may share knows no more than they do",
		pkgs: `^spout/internal/`, except: `/(redistest|natstest|ratelimit)$`, only: `^spout/internal/` + driver,
	},
	{
		why:  "ratelimit reads structured fields of HTTP, and knows nothing else",
		pkgs: `^spout/internal/ratelimit$`, only: `^github.com/dunglas/httpsfv$`,
	},
	{
		why:  "handlers agree with their siblings by behaviour, not by import",
		pkgs: `^spout/handlers(/|$)`, never: `^spout/(queue|meter|scheduler)(/|$)`,
	},
	{
		why:  "scheduler imports queue and no other sibling",
		pkgs: `^spout/scheduler(/|$)`, never: `^spout/(meter|handlers)(/|$)`,
	},
	{
		why:  "commands tie things together, and nothing is built on them",
		pkgs: `.`, except: `^spout/(cmd|e2e|examples)(/|$)`, never: `^spout/(cmd|e2e|examples)(/|$)`,
	},
	{
		why:  "asynq is the runtime of scheduler and handlers, and nobody else's business",
		pkgs: `.`, except: `^spout/(scheduler|handlers|cmd/dev|examples|e2e)(/|$)`, never: `/hibiken/asynq(/|$)`,
	},
	{
		why:  "embedded servers and test helpers are for tests and cmd/dev",
		pkgs: `.`, except: `^spout/(internal/(redis|nats)test|cmd/dev|e2e)(/|$)`, never: embedded,
	},
	{
		why:  "it does not link embedded servers and test helpers, by no detour",
		pkgs: `^spout/cmd/(producer|worker|admin)$`, never: embedded, linked: true,
	},
}

func TestImports(t *testing.T) {
	t.Parallel()
	watchSources(t)
	// -e: a package that does not build is for others to report.
	list := run(t, "go", "list", "-e", "-f", `{{.ImportPath}};{{join .Imports " "}};{{join .Deps " "}}`, "./...")
	for line := range strings.Lines(list) {
		fields := strings.Split(strings.ReplaceAll(line, "github.com/spout-queue/spout/", "spout/"), ";")
		pkg, imports, linked := fields[0], strings.Fields(fields[1]), strings.Fields(fields[2])
		for _, rule := range rules {
			if !match(rule.pkgs, pkg) || rule.except != "" && match(rule.except, pkg) {
				continue
			}
			judged := imports
			if rule.linked {
				judged = linked
			}
			for _, path := range judged {
				if rule.never != "" && match(rule.never, path) ||
					rule.only != "" && !match(rule.only, path) && !standard(path) {
					t.Errorf("%s has %s, but %s", pkg, path, rule.why)
				}
			}
		}
	}
}

func TestTopLevel(t *testing.T) {
	t.Parallel()
	want := strings.Fields(`go.mod go.sum README.md CHANGELOG.md LICENSE Makefile .ci .githooks .gitignore .golangci.yml
		cmd queue meter scheduler handlers dashboards e2e internal docs examples`)
	var seen []string
	for path := range strings.Lines(run(t, "git", "ls-files")) {
		name, _, _ := strings.Cut(strings.TrimSpace(path), "/")
		if !slices.Contains(want, name) && !slices.Contains(seen, name) {
			seen = append(seen, name)
			t.Errorf("%s: a new entry at the top level; find it a room in one of %v", name, want)
		}
	}
}

// watchSources looks at every directory and at git's index, so that a cached
// result of these tests counts only while nothing has changed.
func watchSources(t *testing.T) {
	t.Helper()
	_, _ = os.Stat(filepath.Join(root, ".git", "index"))
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
	}
	return string(out)
}

func match(pattern, s string) bool { return regexp.MustCompile(pattern).MatchString(s) }

// standard tells a package of the standard library by its first element, which
// has no dot.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return first != "spout" && !strings.Contains(first, ".")
}
