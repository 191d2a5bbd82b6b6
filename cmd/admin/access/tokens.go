package access

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/spout-queue/spout/cmd/internal/strictyaml"
)

// Tokens are the people of a file, by the hashes of their tokens:
//
//	tokens:
//	  - name: deploy          # who, in the log of changes
//	    role: operator        # viewer, operator or admin
//	    classes: [github-api] # that they know of; left out, all
//	    hash: sha256:…        # see admin token new
//
// The file is read again when it has changed, looked at once a second at most. A file that is wrong then leaves
// those who were in it before, and is told to the log. It is safe for concurrent use.
type Tokens struct {
	file string
	log  *slog.Logger

	mu     sync.Mutex
	people []holder
	seen   stamp
	looked time.Time
}

// holder of a token.
type holder struct {
	hash   Hash
	person Person
}

// stamp tells whether a file is the one that was read; the zero value is that of none.
type stamp struct {
	at   time.Time
	size int64
}

const (
	tokensMost = 1 << 20 // bytes of the file
	lookEvery  = time.Second
)

// ReadTokens reads a file. Nobody but its owner may be able to write it. log gets what is wrong with it later.
func ReadTokens(file string, log *slog.Logger) (*Tokens, error) {
	t := &Tokens{file: file, log: log}
	if err := t.Reload(); err != nil {
		return nil, err
	}
	return t, nil
}

// Reload reads the file again. After an error, all is as before.
func (t *Tokens) Reload() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reload()
}

// reload requires that mu is held.
func (t *Tokens) reload() error {
	t.looked = time.Now()
	info, err := os.Stat(t.file)
	if err != nil {
		t.seen = stamp{}
		return fmt.Errorf("tokens: %w", err)
	}
	t.seen = stamp{info.ModTime(), info.Size()}
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("tokens: %s is no regular file", t.file)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("tokens: %s can be written by others than its owner; chmod go-w %[1]s", t.file)
	case info.Size() > tokensMost:
		return fmt.Errorf("tokens: %s has more than %d bytes, which is no file of tokens", t.file, tokensMost)
	}
	data, err := os.ReadFile(t.file)
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	people, err := parseTokens(t.file, data)
	if err != nil {
		return err
	}
	t.people = people
	return nil
}

// look reads the file again if it has changed. It requires that mu is held.
func (t *Tokens) look(ctx context.Context) {
	if time.Since(t.looked) < lookEvery {
		return
	}
	t.looked = time.Now()
	var now stamp // of a file that is not there
	if info, err := os.Stat(t.file); err == nil {
		now = stamp{info.ModTime(), info.Size()}
	}
	if now == t.seen {
		return
	}
	if err := t.reload(); err != nil {
		t.log.LogAttrs(ctx, slog.LevelError, "the changed file of tokens is not used; those read before still count", slog.Any("error", err))
		return
	}
	t.log.LogAttrs(ctx, slog.LevelInfo, "read the changed file of tokens", slog.Int("tokens", len(t.people)))
}

// find is the person with a token of a hash. It takes as long for any hash.
func (t *Tokens) find(ctx context.Context, hash Hash) (Person, bool) {
	if t == nil {
		return Person{}, false
	}
	t.mu.Lock()
	t.look(ctx)
	people := t.people
	t.mu.Unlock()
	found := -1
	for i := range people {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(people[i].hash[:], hash[:]), i, found)
	}
	if found < 0 {
		return Person{}, false
	}
	return people[found].person, true
}

// parseTokens reads the file's text. All that is wrong with it is one error.
func parseTokens(file string, data []byte) ([]holder, error) {
	root, err := strictyaml.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("tokens: %s: %w", file, err)
	}
	problems := &strictyaml.Problems{File: file}
	var people []holder
	for _, f := range strictyaml.Fields(root, "the file of tokens", []string{"tokens"}, problems) {
		if f.Value.Kind != yaml.SequenceNode {
			problems.Addf(f.Line, "tokens is not a list")
			continue
		}
		for _, node := range f.Value.Content {
			people = append(people, parseHolder(node, people, problems))
		}
	}
	if len(people) == 0 && len(problems.List) == 0 {
		problems.Addf(1, "there is no token in it; make one with admin token new")
	}
	return people, problems.Err()
}

func parseHolder(node *yaml.Node, others []holder, problems *strictyaml.Problems) holder {
	var h holder
	missing := []string{"name", "role", "hash"}
	for _, f := range strictyaml.Fields(node, "a token", []string{"name", "role", "classes", "hash"}, problems) {
		if err := h.set(f.Name, f.Value); err != nil {
			problems.Addf(f.Line, "%s: %v", f.Name, err)
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == f.Name })
	}
	for _, name := range missing {
		problems.Addf(node.Line, "a token has no %s", name)
	}
	switch {
	case len(missing) > 0:
	case slices.ContainsFunc(others, func(o holder) bool { return o.person.Name == h.person.Name }):
		problems.Addf(node.Line, "the name %q is there twice, and the log of changes could not tell who it was", h.person.Name)
	case slices.ContainsFunc(others, func(o holder) bool { return o.hash == h.hash }):
		problems.Addf(node.Line, "the hash of %q is there twice", h.person.Name)
	}
	return h
}

func (h *holder) set(name string, value *yaml.Node) error {
	if name == "classes" {
		classes, err := strictyaml.Texts(value)
		if err == nil && len(classes) == 0 {
			err = errors.New("is empty; leave it out for all classes")
		}
		h.person.Classes = classes
		return err
	}
	text, err := strictyaml.Text(value)
	if err != nil {
		return err
	}
	switch name {
	case "name":
		h.person.Name = text
		return CheckName(text)
	case "role":
		h.person.Role, err = ParseRole(text)
	case "hash":
		h.hash, err = ParseHash(text)
	}
	return err
}
