package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/cmd/internal/jobstream"
	"github.com/spout-queue/spout/queue"
)

const (
	// wildMost is how many messages are looked at in one go for those that no consumer can be made for, and
	// wildTime how long that may take from the claims.
	wildMost = 100
	wildTime = time.Second
)

// wild tells that no consumer delivers the messages of a subject: servers take messages on subjects that are patterns. One for the class *
// would have the messages of all classes, > is none, and a key > is found by no filter for keys.
func wild(class, key string) bool { return class == "*" || class == ">" || key == ">" }

// endWild ends messages that no consumer can be made for: they are looked up, and deleted, one by one.
func (c *claims) endWild(ctx context.Context) error {
	if len(c.wild) == 0 || time.Now().Before(c.wildNext) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, wildTime)
	defer cancel()
	err := c.lookForWild(ctx)
	if err != nil { // as where the account may not delete
		c.wildNext = time.Now().Add(tellEvery)
	}
	return err
}

func (c *claims) lookForWild(ctx context.Context) error {
	looked, all := 0, c.b.o.Stream.Filters("*")[0]
	for subject, from := range c.wild {
		filter := strings.TrimSuffix(all, "*.*") + ">"
		if key, ok := strings.CutPrefix(subject, strings.TrimSuffix(all, "*")); ok && key != ">" { // of the class *: few are to be looked at
			filter = subject
		}
		for ; looked < wildMost; looked++ {
			m, err := c.b.stream.GetMsg(ctx, from, jetstream.WithGetMsgSubject(filter))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				delete(c.wild, subject)
				break
			}
			if err == nil && m.Subject == subject {
				err = c.end(ctx, m)
			}
			if err != nil {
				return fmt.Errorf("end messages on subject %s: %w", subject, err)
			}
			from = m.Sequence + 1
			c.wild[subject] = from
		}
	}
	return nil
}

// end deletes a message that is no job and, unless another bridge was faster, tells why.
func (c *claims) end(ctx context.Context, m *jetstream.RawStreamMsg) error {
	err := c.b.stream.DeleteMsg(ctx, m.Sequence)
	if errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		return nil
	}
	if err == nil {
		c.b.rejected(&message{Msg: stored{raw: m}, seq: m.Sequence},
			fmt.Errorf("%w: subject %s: %w", queue.ErrInvalid, m.Subject, jobstream.ErrSubject))
	}
	return err
}

// stored is a message that was looked up, and not delivered.
type stored struct {
	jetstream.Msg
	raw *jetstream.RawStreamMsg
}

func (m stored) Subject() string      { return m.raw.Subject }
func (m stored) Headers() nats.Header { return m.raw.Header }
func (m stored) Data() []byte         { return m.raw.Data }
