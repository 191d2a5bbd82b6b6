package bridge

import (
	"sync"
	"time"
)

// tellEvery is how often the log is told of what lasts.
const tellEvery = 30 * time.Second

// outage decides when the log is told of something that is away: when it goes, now and then while it is, and when it is back.
type outage struct {
	mu   sync.Mutex
	away bool
	told time.Time
}

// tell notes how it is now and tells whether to say so.
func (o *outage) tell(away bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	changed := away != o.away
	o.away = away
	if !changed && (!away || time.Since(o.told) < tellEvery) {
		return false
	}
	o.told = time.Now()
	return true
}
