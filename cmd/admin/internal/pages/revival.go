package pages

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// revivalsMost is how many classes may have their dead jobs sent round again at once.
const revivalsMost = 16

// revival sends dead jobs round again in the background, as their buckets have room. It outlives the tab that began it, and
// ends with the program; what went round by then stays so.
type revival struct {
	Target desk.Target
	By     string
	Began  time.Time
	Total  int // dead jobs when it began; 0 when nobody counted them
	queue.Revival
	State string // running, done, stopped or failed
	Error string

	stop context.CancelFunc
}

// Most is what its progress runs up to.
func (r *revival) Most() int { return max(r.Total, r.Retried+r.Left, 1) }

// Running tells whether it goes on.
func (r *revival) Running() bool { return r.State == "running" }

// parts are the versions of what a page shows of it, and of the dead jobs, which are listed again when it has ended.
func (r *revival) parts() map[string]string {
	parts := map[string]string{"revival": "", "list": ""}
	if r == nil {
		return parts
	}
	parts["revival"] = r.State + r.Began.String()
	if !r.Running() {
		parts["list"] = r.Began.String()
	}
	return parts
}

// revivals are the latest one of each class. It is safe for concurrent use.
type revivals struct {
	mu      sync.Mutex
	byClass map[string]*revival
	running sync.WaitGroup
}

func newRevivals() *revivals { return &revivals{byClass: map[string]*revival{}} }

// of tells how the latest one of a class stands; nil when there was none.
func (s *revivals) of(class string) *revival {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.byClass[class]; r != nil {
		now := *r
		return &now
	}
	return nil
}

// begin starts one, unless the class has one under way. It goes on when ctx ends.
func (s *revivals) begin(ctx context.Context, d *desk.Desk, t desk.Target, total int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	under := 0
	for _, r := range s.byClass {
		if r.Running() {
			under++
		}
	}
	if r := s.byClass[t.Class]; r != nil && r.Running() {
		return fmt.Errorf("%w: dead jobs of %s are being retried already; stop that first", queue.ErrConflict, r.Target)
	}
	if under >= revivalsMost {
		return fmt.Errorf("%w: dead jobs of %d classes are being retried already; wait for one of them", queue.ErrConflict, under)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &revival{Target: t, By: access.From(ctx).Name, Began: time.Now(), Total: total, State: "running", stop: cancel}
	s.byClass[t.Class] = r
	s.running.Go(func() {
		defer cancel()
		_, err := d.Revive(ctx, t, time.Time{}, func(so queue.Revival) { s.note(r, so) })
		s.end(r, err)
	})
	return nil
}

func (s *revivals) note(r *revival, so queue.Revival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Revival = so
}

func (s *revivals) end(r *revival, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		r.State = "done"
	case errors.Is(err, context.Canceled):
		r.State = "stopped"
	default:
		r.State, r.Error = "failed", wire.Public(err).Error()
	}
}

// halt stops the one of a class.
func (s *revivals) halt(class string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.byClass[class]; r != nil {
		r.stop()
	}
}

// close stops all and waits until they have ended.
func (s *revivals) close() {
	s.mu.Lock()
	for _, r := range s.byClass {
		r.stop()
	}
	s.mu.Unlock()
	s.running.Wait()
}
