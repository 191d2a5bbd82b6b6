package arch_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// loud are the calls that log at warn and above, and which of their arguments is the message.
func loud(call *ast.CallExpr) (level string, message ast.Expr) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", nil
	}
	switch name := selector.Sel.Name; {
	case name == "LogAttrs" && len(call.Args) >= 3:
		switch of := call.Args[1].(type) {
		case *ast.SelectorExpr:
			level, ok = map[string]string{"LevelWarn": "warn", "LevelError": "error"}[of.Sel.Name]
			return level, map[bool]ast.Expr{true: call.Args[2]}[ok]
		default: // decided when it runs: it may be loud
			return "warn or error", call.Args[2]
		}
	case (name == "Warn" || name == "Error") && len(call.Args) > 0:
		return strings.ToLower(name), call.Args[0]
	}
	return "", nil
}

// constant is the text of a message that is made of literals only.
func constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		x, ok1 := constant(e.X)
		y, ok2 := constant(e.Y)
		return x + y, ok1 && ok2 && e.Op == token.ADD
	}
	return "", false
}

// messages lists what programs of ours can log at warn and above.
func messages(t *testing.T) (list []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && rel != "." || rel == "e2e" || rel == "examples") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if level, message := loud(call); message != nil {
				if text, ok := constant(message); ok {
					list = append(list, fmt.Sprintf("| %s | `%s` |", level, text))
				} else if level == "warn or error" {
					t.Errorf("%s: a message that is not constant", rel)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestMessages wants docs/observability.md to list every message of level warn and above, and no other: it is what the
// person on call searches for.
func TestMessages(t *testing.T) {
	t.Parallel()
	watchSources(t)
	text, err := os.ReadFile(filepath.Join(root, "docs", "observability.md"))
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) == 5 && strings.HasPrefix(line, "| warn") || strings.HasPrefix(line, "| error") {
			if strings.TrimSpace(cells[3]) == "" {
				t.Errorf("nothing is said about %s", cells[2])
			}
			listed = append(listed, "|"+cells[1]+"|"+cells[2]+"|")
		}
	}
	logged := messages(t)
	if len(logged) < 20 {
		t.Errorf("found only %d messages: %v", len(logged), logged)
	}
	for _, m := range logged {
		if !slices.Contains(listed, m) {
			t.Errorf("docs/observability.md lacks %s", m)
		}
	}
	for _, m := range listed {
		if !slices.Contains(logged, m) {
			t.Errorf("docs/observability.md has %s, which nothing logs", m)
		}
	}
}
