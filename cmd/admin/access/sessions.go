package access

import (
	"sync"
	"time"
)

const (
	sessionTime  = 12 * time.Hour
	sessionsMost = 10_000
)

// sessions are the browsers that somebody has logged in with. They are kept in this process, by the hash of what the
// cookie says, and end with it.
type sessions struct {
	mu   sync.Mutex
	open map[Hash]session
}

// session says who it is: the person that the identity provider told, or whoever has a token now.
type session struct {
	person Person
	token  Hash // of a session that began with a token
	ends   time.Time
}

// begin opens a session and returns what the cookie shall say.
func (s *sessions) begin(opened session) (secret string) {
	secret = random()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[Hash]session{}
	}
	if len(s.open) >= sessionsMost {
		s.makeRoom()
	}
	opened.ends = time.Now().Add(sessionTime)
	s.open[HashOf(secret)] = opened
	return secret
}

// makeRoom ends all sessions whose time is over, or the oldest. It requires that mu is held.
func (s *sessions) makeRoom() {
	var oldest Hash
	first := time.Now().Add(sessionTime)
	for key, open := range s.open {
		if time.Now().After(open.ends) {
			delete(s.open, key)
		} else if open.ends.Before(first) {
			oldest, first = key, open.ends
		}
	}
	if len(s.open) >= sessionsMost {
		delete(s.open, oldest)
	}
}

// find is the session of a cookie.
func (s *sessions) find(secret string) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.open[HashOf(secret)]
	return found, ok && time.Now().Before(found.ends)
}

// end closes the session of a cookie.
func (s *sessions) end(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, HashOf(secret))
}

// endAll closes the session of a cookie and all others of the same token, or of the same person of the identity provider, in
// whatever browser.
func (s *sessions) endAll(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	this, ok := s.open[HashOf(secret)]
	if !ok {
		return
	}
	for key, open := range s.open {
		if open.token == this.token && open.person.Name == this.person.Name {
			delete(s.open, key)
		}
	}
}
