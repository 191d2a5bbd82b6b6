// Package live samples what the dashboard shows, while somebody looks: once for all tabs of a process, with a bounded
// number of commands a second however many buckets there are. What it knows is in memory only and begins anew when nobody
// looked for a while; what must last is in the rings of queue.History.
package live

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spout-queue/spout/queue"
)

const (
	// tick is the time between two steps; buckets that somebody looks at are read in every one.
	tick = 250 * time.Millisecond
	// linger is how long sampling goes on after the last look, so that going from page to page begins nothing anew.
	linger = 10 * time.Second
	// patience bounds one step: Redis is away when it takes longer.
	patience = time.Second
	// forget is after how long without anybody looking all is forgotten.
	forget = time.Minute
	// StaleAfter is how old numbers may be and still be called live.
	StaleAfter = 3 * time.Second
)

// Live has the numbers of one installation. It is safe for concurrent use.
type Live struct {
	client  *queue.Client
	nats    func(context.Context) (uint64, error)
	wake    chan struct{} // somebody began to look
	hurry   chan struct{} // somebody looks at buckets that were not read yet
	looking atomic.Int64
	looked  atomic.Int64 // when somebody last did, ns

	mu      sync.Mutex
	picture *Picture
	fresh   chan struct{} // closed when the next picture is there
	buckets watched
	known   known
	chosen  map[string]*selection
	changed map[string]string // the last change of each class, by its id
	place   string            // in the log of changes, behind what was read of it
}

// New returns the numbers of an installation; nothing is read before [Live.Run], and nothing while nobody looks. nats tells how
// many messages wait in the stream of jobs, or why NATS is away; nil where there is none.
func New(client *queue.Client, nats func(context.Context) (uint64, error)) *Live {
	return &Live{
		client: client, nats: nats, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), picture: &Picture{}, fresh: make(chan struct{}),
		buckets: watched{}, known: newKnown(), chosen: map[string]*selection{}, changed: map[string]string{},
	}
}

// Look says that somebody looks, until the returned function is called.
func (l *Live) Look() (done func()) {
	l.looking.Add(1)
	l.glance()
	return sync.OnceFunc(func() {
		l.looked.Store(time.Now().UnixNano())
		l.looking.Add(-1)
	})
}

// glance is a look of a moment.
func (l *Live) glance() {
	l.looked.Store(time.Now().UnixNano())
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// watchedNow tells whether somebody looks, or did a moment ago.
func (l *Live) watchedNow() bool {
	return l.looking.Load() > 0 || time.Since(time.Unix(0, l.looked.Load())) < linger
}

// Run samples until ctx ends, while somebody looks. Errors of Redis are told by the pictures; it goes on by itself.
func (l *Live) Run(ctx context.Context) {
	var ended time.Time
	for {
		select {
		case <-l.wake:
		case <-ctx.Done():
			return
		}
		if time.Since(ended) > forget {
			l.forgetAll()
		}
		l.session(ctx)
		ended = time.Now()
	}
}

// session samples as long as somebody looks.
func (l *Live) session(ctx context.Context) {
	s := newSampler(l)
	ctx, end := context.WithCancel(ctx)
	var aside sync.WaitGroup
	defer aside.Wait() // one session at a time asks
	defer end()
	if l.nats != nil {
		aside.Go(func() { s.watchNATS(ctx) })
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for l.watchedNow() && ctx.Err() == nil {
		s.step(ctx)
		for waiting := true; waiting; {
			select {
			case <-l.hurry:
				s.hurry(ctx)
			case <-ticker.C:
				waiting = false
			case <-ctx.Done():
				return
			}
		}
	}
}

// hurried tells whether somebody waits for buckets that were not read yet: what can wait does then.
func (l *Live) hurried() bool { return len(l.hurry) > 0 }

func (l *Live) forgetAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buckets, l.known, l.chosen = watched{}, newKnown(), map[string]*selection{}
	l.picture = &Picture{}
}

// Now is the newest picture. The first one after a while is waited for, but not for long: a picture that was never taken
// says that it is stale.
func (l *Live) Now(ctx context.Context) *Picture {
	l.glance()
	wait := time.NewTimer(firstWait)
	defer wait.Stop()
	for {
		l.mu.Lock()
		picture, fresh := l.picture, l.fresh
		l.mu.Unlock()
		if picture.recent() {
			return picture
		}
		select {
		case <-fresh:
		case <-wait.C:
			return picture
		case <-ctx.Done():
			return picture
		}
	}
}

const firstWait = 1500 * time.Millisecond

// Swept waits until all buckets were seen once, at most as long as told: a small installation is shown whole at once, and a
// large one fills in.
func (l *Live) Swept(ctx context.Context, most time.Duration) {
	wait := time.NewTimer(most)
	defer wait.Stop()
	for {
		l.mu.Lock()
		whole, fresh := l.known.whole, l.fresh
		l.mu.Unlock()
		if whole {
			return
		}
		select {
		case <-fresh:
		case <-wait.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Changed tells which change of a class, or of one of its buckets, was the last that somebody looked for; empty when there was none.
func (l *Live) Changed(class string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed[class]
}

// publish shows a picture to all who wait for one.
func (l *Live) publish(p *Picture) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p != nil {
		l.picture = p
	}
	close(l.fresh)
	l.fresh = make(chan struct{})
}
