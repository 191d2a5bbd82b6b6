package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/classfile"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// ClassPath names a class.
type ClassPath struct {
	Class string `path:"class" doc:"The name of the class." example:"github-api"`
}

// classOutput is a class with its version as a tag.
type classOutput struct {
	ETag string `header:"ETag" doc:"The version of the class, and behind a dash a tag of what is said."`
	Body wire.ClassState
}

type removeInput struct {
	ClassPath
	Confirmation
	Purge bool `query:"purge" doc:"Drop its waiting and its dead jobs first."`
}

func (s *server) routeClasses() {
	route(s, s.operation(http.MethodGet, "/v1/classes", "classes", "List classes", "By name: all of them, on one page."),
		func(ctx context.Context, _ *struct{}) (*output[wire.Page[wire.ClassState]], error) {
			classes, err := s.desk.Classes(ctx)
			if err != nil {
				return nil, err
			}
			list := wire.Page[wire.ClassState]{Items: make([]wire.ClassState, len(classes))}
			for i, class := range classes {
				if list.Items[i], err = s.stateOf(ctx, class); err != nil {
					return nil, err
				}
			}
			return &output[wire.Page[wire.ClassState]]{list}, nil
		})
	route(s, s.operation(http.MethodGet, "/v1/classes/{class}", "classes", "Look at a class", "", queue.ReasonUnknownClass),
		func(ctx context.Context, in *ClassPath) (*classOutput, error) { return s.classNow(ctx, in.Class) })
	s.describePut()
	route(s, s.operation(http.MethodDelete, "/v1/classes/{class}", "classes", "Remove a class",
		"It must have no jobs, else it is busy: how many wait, are out and dead. purge=true drops those that wait and the dead ones first. Asks twice, with their number.",
		queue.ReasonUnknownClass, answer.ReasonBusy, wire.ReasonUnconfirmed),
		s.removeClass)
}

func (s *server) stateOf(ctx context.Context, class queue.Class) (wire.ClassState, error) {
	books, err := s.desk.Books(ctx, class.Name)
	return wire.ClassState{Class: wire.FromClass(class), Waiting: books.Waiting(), Out: books.Out()}, err
}

func (s *server) classNow(ctx context.Context, name string) (*classOutput, error) {
	class, err := s.desk.Class(ctx, name)
	if err != nil {
		return nil, err
	}
	state, err := s.stateOf(ctx, class)
	return &classOutput{etag(class.Version), state}, err
}

func etag(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }

func (s *server) removeClass(ctx context.Context, in *removeInput) (*output[wire.Removal], error) {
	if err := s.desk.Allow(ctx, access.Admin, in.Class); err != nil {
		return nil, err
	}
	has, err := s.holdings(ctx, in.Class)
	if err != nil {
		return nil, err
	}
	if !in.Purge && has.Waiting+has.Out+has.Dead > 0 {
		return nil, has // to ask how many jobs may go would be to promise that they do
	}
	if err := in.check("remove class "+in.Class, has.Waiting+has.Dead); err != nil {
		if p, ok := errors.AsType[*problem](err); ok {
			p.Waiting, p.Dead = &has.Waiting, &has.Dead
			if has.Out > 0 { // whoever agrees now loses jobs and has the class all the same
				p.Out, p.Detail = &has.Out, fmt.Sprintf("%s; %d are out, and keep the class for as long as that", p.Detail, has.Out)
			}
		}
		return nil, err
	}
	done, err := s.desk.RemoveClass(ctx, in.Class, in.Purge)
	if err != nil && done.Waiting+done.Dead > 0 {
		p := s.refusal(ctx, err)
		p.Done = &wire.Done{Waiting: done.Waiting, Dead: done.Dead}
		return nil, p
	}
	return &output[wire.Removal]{wire.Removal(done)}, err
}

// holdings are the jobs of a class, as what keeps it from being removed.
func (s *server) holdings(ctx context.Context, name string) (*queue.BusyError, error) {
	if _, err := s.desk.Class(ctx, name); err != nil {
		return nil, err
	}
	books, err := s.desk.Books(ctx, name)
	if err != nil {
		return nil, err
	}
	dead, err := s.desk.DeadCount(ctx, name)
	return &queue.BusyError{Class: name, Waiting: books.Waiting(), Out: books.Out(), Dead: int64(dead)}, err
}

func (s *server) describePut() {
	op := s.operation(http.MethodPut, "/v1/classes/{class}", "classes", "Store a class",
		"New or changed, with the fields and forms of a class file; a field that is left out has its default. It is answered with what changes. "+
			"What GET tells besides the settings may be sent back and is no setting: name must be that of the path, and version, like If-Match, "+
			"stores nothing unless the class has it; waiting, out, paused, draining and hold are not looked at.",
		queue.ReasonConflict, queue.ReasonTooLarge, queue.ReasonUnknownClass, queue.ReasonUnknown, reasonUnsupported)
	op.Parameters = append(op.Parameters, param("path", "class", "The name of the class.", "github-api"),
		param("query", "dry_run", "true: only tell what would change.", "true"),
		param("header", "If-Match", "The version that the class must have, as its ETag, of which the number counts; or * for any.", `"3"`),
		param("header", "If-None-Match", "*: there must be no such class yet.", "*"))
	op.Responses["412"] = op.Responses["409"]
	op.MaxBodyBytes = classBodyMost
	s.reads(&op, reflect.TypeFor[wire.ClassPut](), map[string]any{"capacity": 500, "rate": "30/60s", "timeout": "10s"})
	s.answers(&op, http.StatusOK, "What has changed, or would.", reflect.TypeFor[wire.Plan]())
	s.answers(&op, http.StatusCreated, "A new class.", reflect.TypeFor[wire.Plan]())
	s.direct(op, s.putClass)
}

const classBodyMost = 64 << 10

func (s *server) putClass(w http.ResponseWriter, r *http.Request) error {
	ctx, name := r.Context(), r.PathValue("class")
	if err := s.desk.Allow(ctx, access.Admin, name); err != nil {
		return err
	}
	dry, err := yesNo(r, "dry_run")
	if err != nil {
		return err
	}
	body, err := readBody(r)
	if err != nil {
		return err
	}
	class, err := classfile.ParseOne(name, body)
	if err != nil {
		return err
	}
	want, byHeader, err := wantedVersion(r.Header, class.Version)
	if err != nil {
		return err
	}
	plan, err := s.put(ctx, class, want, dry)
	for try := 1; try < putTries && want == anyVersion && errors.Is(err, queue.ErrConflict); try++ { // who wants no version comes after the other
		plan, err = s.put(ctx, class, want, dry)
	}
	if err != nil {
		if p := problemOf(err); byHeader && p.Reason == queue.ReasonConflict {
			p.Status = http.StatusPreconditionFailed
			return p
		}
		return err
	}
	w.Header().Set("ETag", etag(plan.Version))
	status := http.StatusOK
	if plan.Applied && plan.Change == "new" {
		status = http.StatusCreated
	}
	return sendJSON(w, status, plan)
}

// putTries is how often a class is stored of which any version will do, while others store it, too.
const putTries = 5

// put stores a class, unless it is only asked what that would change, or has another version than is wanted.
func (s *server) put(ctx context.Context, class queue.Class, want int64, dry bool) (wire.Plan, error) {
	plan, err := s.planOf(ctx, class)
	switch {
	case err != nil:
		return plan, err
	case !agrees(want, plan.Version):
		return plan, versionConflict(class.Name, want, plan.Version)
	case dry || plan.Change == "unchanged":
		return plan, nil
	}
	err = s.store(ctx, class, want, &plan)
	return plan, err
}

func yesNo(r *http.Request, name string) (bool, error) {
	switch text := r.URL.Query().Get(name); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, fmt.Errorf("%w: %s %q is neither true nor false", queue.ErrInvalid, name, clip(text))
	}
}

// Versions that a class may be wanted to have, besides those that count from 1.
const (
	anyVersion int64 = -1 - iota
	present          // there is one
	absent     int64 = 0
)

// wantedVersion reads what a request wants of the class that is there: by its headers, or in its body. What is not understood is
// refused: a class that somebody else has changed would be stored over.
func wantedVersion(h http.Header, inBody int64) (version int64, byHeader bool, err error) {
	version, byHeader, err = versionOf(h)
	switch {
	case err != nil || inBody == 0:
		return version, byHeader, err
	case version == anyVersion || version == present:
		return inBody, false, nil
	case version != inBody:
		return 0, true, fmt.Errorf("%w: the body has version %d, and %s another, or none; one will do", queue.ErrInvalid, inBody, ifMatch)
	}
	return version, byHeader, nil
}

const ifMatch = "If-Match"

// versionOf reads what the headers of a request want.
func versionOf(h http.Header) (version int64, byHeader bool, err error) {
	for _, name := range []string{ifMatch, ifNoneMatch} {
		if values := h[name]; len(values) > 1 || len(values) == 1 && values[0] == "" {
			return 0, true, fmt.Errorf("%w: %s is there %d times, or empty", queue.ErrInvalid, name, len(values))
		}
	}
	match, none := h.Get(ifMatch), h.Get(ifNoneMatch)
	switch {
	case match != "" && none != "":
		return 0, true, fmt.Errorf("%w: If-Match and If-None-Match are both there; one will do", queue.ErrInvalid)
	case match == "*":
		return present, true, nil
	case match != "":
		text, opened := strings.CutPrefix(match, `"`)
		text, closed := strings.CutSuffix(text, `"`)
		text, _, _ = strings.Cut(text, "-") // what is behind it changes with what waits
		version, err := strconv.ParseInt(text, 10, 64)
		if err != nil || version < 1 || !opened || !closed {
			return 0, true, fmt.Errorf(`%w: If-Match %q is not one version in quotes, like "3", or *`, queue.ErrInvalid, clip(match))
		}
		return version, true, nil
	case none == "*":
		return absent, true, nil
	case none != "":
		return 0, true, fmt.Errorf("%w: If-None-Match can only be *", queue.ErrInvalid)
	}
	return anyVersion, false, nil
}

func agrees(want, has int64) bool {
	switch want {
	case anyVersion:
		return true
	case present:
		return has > 0
	}
	return want == has
}

func versionConflict(name string, want, has int64) error {
	switch {
	case has == 0:
		return fmt.Errorf("%w: there is no class %s that could be changed", queue.ErrConflict, name)
	case want == absent:
		return fmt.Errorf("%w: class %s is there already, with version %d", queue.ErrConflict, name, has)
	}
	return fmt.Errorf("%w: class %s has version %d, not %d: somebody has changed it; look at it and try again", queue.ErrConflict, name, has, want)
}

// planOf says what storing a class would change.
func (s *server) planOf(ctx context.Context, class queue.Class) (wire.Plan, error) {
	plan := wire.Plan{Class: class.Name, Change: "new"}
	old, err := s.desk.Class(ctx, class.Name)
	switch {
	case errors.Is(err, queue.ErrUnknownClass):
		return plan, nil
	case err != nil:
		return plan, err
	}
	plan.Change, plan.Version = "unchanged", old.Version
	if !old.Equal(class) {
		plan.Change = "changed"
		for _, c := range classfile.Diff(old, class) {
			plan.Fields = append(plan.Fields, wire.SettingChange(c))
		}
	}
	return plan, nil
}

// store stores a class that nobody has changed meanwhile, where that is wanted.
func (s *server) store(ctx context.Context, class queue.Class, want int64, plan *wire.Plan) error {
	put := s.desk.PutClass
	if want != anyVersion {
		put = func(ctx context.Context, class queue.Class) (queue.Class, error) {
			return s.desk.PutClassIf(ctx, class, plan.Version)
		}
	}
	stored, err := put(ctx, class)
	plan.Applied, plan.Version = err == nil, stored.Version
	return err
}
