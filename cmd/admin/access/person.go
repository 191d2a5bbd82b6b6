// Package access knows who asks the admin, and what they may do.
package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Role is what a person may do. Each may do what the ones before it may.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"   // reads
	Operator Role = "operator" // submits, closes and opens buckets, cancels and retries jobs
	Admin    Role = "admin"    // changes and deletes classes, purges
)

// ErrDenied says that the person may not do that. Nothing was changed.
var ErrDenied = errors.New("access: denied")

func roles() []Role { return []Role{Viewer, Operator, Admin} }

func (r Role) rank() int { return slices.Index(roles(), r) }

// ParseRole reads the name of a role.
func ParseRole(s string) (Role, error) {
	if r := Role(s); slices.Contains(roles(), r) {
		return r, nil
	}
	return "", fmt.Errorf("%q is none of the roles %v", s, roles())
}

// nameMost is the longest name of a person, in bytes.
const nameMost = 128

// CheckName says why nobody can have a name, or nil: 1 to 128 bytes of UTF-8 without control characters.
func CheckName(name string) error {
	switch {
	case name == "" || len(name) > nameMost:
		return fmt.Errorf("a name has 1 to %d bytes", nameMost)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("a name is UTF-8 without control characters")
	}
	return nil
}

// Person is who asks.
type Person struct {
	// Name is shown in the log of changes.
	Name string
	Role Role
	// Classes that the person knows of; empty means all. Others do not exist for them.
	Classes []string
}

// Sees tells whether a class exists for the person.
func (p Person) Sees(class string) bool {
	return len(p.Classes) == 0 || slices.Contains(p.Classes, class)
}

// May tells whether the person's role is enough.
func (p Person) May(role Role) bool { return p.Role.rank() >= role.rank() && role.rank() >= 0 }

// Check says what is missing. The error wraps [ErrDenied].
func (p Person) Check(role Role) error {
	if p.May(role) {
		return nil
	}
	return fmt.Errorf("%w: %s is %s, and this takes %s", ErrDenied, p.Name, p.Role, role)
}

type personKey struct{}

// With returns a context in which somebody asks.
func With(ctx context.Context, p Person) context.Context {
	return context.WithValue(ctx, personKey{}, p)
}

// From is who asks in a context: nobody, who may do nothing, unless [With] said.
func From(ctx context.Context) Person {
	p, _ := ctx.Value(personKey{}).(Person)
	return p
}
