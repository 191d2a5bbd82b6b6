package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"

	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// Class is a class, and how many of its jobs wait and are out.
type Class struct {
	queue.Class
	Waiting, Out int64
}

func readClass(w wire.ClassState) Class { return Class{w.ToQueue(), w.Waiting, w.Out} }

// Classes lists the classes, by name.
func (c *Client) Classes(ctx context.Context) ([]Class, error) {
	var all []Class
	for class, err := range pages(ctx, c, "list classes", "/v1/classes", nil, sure(readClass)) {
		if err != nil {
			return nil, err
		}
		all = append(all, class)
	}
	return all, nil
}

var className = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// classPath is where a class is. There is none whose name is not one: such a name might lead elsewhere.
func classPath(name, action string) (string, error) {
	if !className.MatchString(name) {
		return "", fmt.Errorf("%w: %q", queue.ErrUnknownClass, name)
	}
	return "/v1/classes/" + name + action, nil
}

// Class reads one class. The error wraps [queue.ErrUnknownClass] when there is none.
func (c *Client) Class(ctx context.Context, name string) (Class, error) {
	path, err := classPath(name, "")
	if err != nil {
		return Class{}, err
	}
	state, err := get[wire.ClassState](ctx, c, "read class "+name, path, nil)
	if err != nil {
		return Class{}, err
	}
	return readClass(state), nil
}

// Plan is what storing a class changes.
type Plan struct {
	// Change is new, changed or unchanged.
	Change string
	// Fields are the settings that differ, with their values as in a class file.
	Fields []SettingChange
	// Version that the class has now, 0 for one that is not there.
	Version int64
}

// SettingChange is one setting that differs.
type SettingChange struct{ Field, Old, New string }

// PutClass stores a class, new or changed, and returns it with its version, see [queue.Classes.Put]. One that is so already
// keeps its version.
func (c *Client) PutClass(ctx context.Context, class queue.Class) (queue.Class, error) {
	return c.put(ctx, class, nil)
}

// PutClassIf is PutClass for a class that still has a version, 0 for one that must not be there yet. The error wraps
// [queue.ErrConflict] when somebody else was quicker.
func (c *Client) PutClassIf(ctx context.Context, class queue.Class, version int64) (queue.Class, error) {
	if version == 0 {
		return c.put(ctx, class, http.Header{"If-None-Match": {"*"}})
	}
	return c.put(ctx, class, http.Header{"If-Match": {strconv.Quote(strconv.FormatInt(version, 10))}})
}

func (c *Client) put(ctx context.Context, class queue.Class, header http.Header) (queue.Class, error) {
	plan, err := c.plan(ctx, class, nil, header)
	if err == nil {
		class.Version = plan.Version
	}
	return class, err
}

// Diff tells what PutClass would change, and changes nothing.
func (c *Client) Diff(ctx context.Context, class queue.Class) (Plan, error) {
	w, err := c.plan(ctx, class, values("dry_run", "true"), nil)
	plan := Plan{Change: w.Change, Version: w.Version}
	for _, field := range w.Fields {
		plan.Fields = append(plan.Fields, SettingChange(field))
	}
	return plan, err
}

func (c *Client) plan(ctx context.Context, class queue.Class, query url.Values, header http.Header) (wire.Plan, error) {
	var plan wire.Plan
	if err := class.Validate(); err != nil {
		return plan, err
	}
	path, err := classPath(class.Name, "")
	if err != nil {
		return plan, err
	}
	ask := call{
		what: "store class " + class.Name, method: http.MethodPut, path: path, query: query, header: header, body: wire.FromSettings(class),
		wait: longTime,
	}
	_, err = c.do(ctx, ask, &plan)
	return plan, err
}

// RemoveClass removes a class that has no jobs; with purge, it first drops those that wait and those that are dead, and tells
// how many, also when it fails then. The error is a [*queue.BusyError] when jobs are left.
func (c *Client) RemoveClass(ctx context.Context, name string, purge bool) (waiting, dead int, err error) {
	path, err := classPath(name, "")
	if err != nil {
		return 0, 0, err
	}
	ask := call{what: "remove class " + name, method: http.MethodDelete, path: path, query: values(), wait: longTime}
	if purge {
		ask.query.Set("purge", "true")
	}
	var done wire.Removal
	err = c.confirmed(ctx, ask, &done)
	if some := doneBefore(err); some != nil {
		return some.Waiting, some.Dead, err
	}
	return done.Waiting, done.Dead, err
}

// asksMost is how often one thing is confirmed: each time there may be more to drop.
const asksMost = 10

// confirmed has something done that cannot be undone, and that the server asks about first.
func (c *Client) confirmed(ctx context.Context, ask call, to any) error {
	for n := 1; ; n++ {
		_, err := c.do(ctx, ask, to)
		confirm := asked(err)
		if confirm == nil || n == asksMost {
			return err
		}
		ask.query.Set("confirm", confirm.problem.Confirm)
	}
}

// asked is the question that the server has, nil when it is something else.
func asked(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok && e.Reason() == wire.ReasonUnconfirmed && e.problem.Confirm != "" {
		return e
	}
	return nil
}

// doneBefore is what was done before something failed.
func doneBefore(err error) *wire.Done {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.problem.Done
	}
	return nil
}
