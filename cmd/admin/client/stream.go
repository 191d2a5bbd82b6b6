package client

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// quietMost is how long a stream may say nothing: a server says something every 15 s, whatever happens.
const quietMost = time.Minute

var errQuiet = errors.New("the server has said nothing for a minute")

// stream is an answer that goes on. It ends when it says nothing: whoever reads it would wait for ever for a server that is gone.
type stream struct {
	body  io.ReadCloser
	end   context.CancelFunc
	timer *time.Timer // runs while somebody reads
	quiet atomic.Bool
}

// listen sends a call whose answer goes on until it is closed, or ctx ends.
func (c *Client) listen(ctx context.Context, ask *call) (*stream, error) {
	ctx, end := context.WithCancel(ctx)
	s := &stream{end: end}
	s.timer = time.AfterFunc(quietMost, func() {
		s.quiet.Store(true)
		end()
	})
	reply, err := c.send(ctx, ask, nil) //nolint:bodyclose // Close does it
	s.timer.Stop()
	if err != nil {
		end()
		if s.quiet.Load() {
			err = transportError(ask, errQuiet)
		}
		return nil, err
	}
	s.body = reply.Body
	return s, nil
}

// Read is [io.Reader].
func (s *stream) Read(p []byte) (int, error) {
	s.timer.Reset(quietMost)
	n, err := s.body.Read(p)
	s.timer.Stop()
	if err != nil && s.quiet.Load() {
		err = errQuiet
	}
	return n, err
}

// Close ends it.
func (s *stream) Close() error {
	s.end()
	return s.body.Close()
}
