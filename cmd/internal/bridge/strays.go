package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/cmd/internal/jobstream"
)

const (
	// strayEvery is how often a bridge looks for messages of classes that nobody knows.
	strayEvery = 5 * time.Second
	// strayShare of the time, at most, goes into that: one in so many parts.
	strayShare = 50
	// straysMost is how many unknown classes are answered at once.
	straysMost = 16
)

// findStrays looks for messages of classes that are not in Redis, so that they are answered too, and gives back classes that
// are gone and have no more of them.
func (c *claims) findStrays(ctx context.Context) error {
	begin := time.Now()
	if begin.Before(c.strayNext) {
		return nil
	}
	c.strayNext = begin.Add(strayEvery)
	covered, err := c.covered(ctx)
	if err != nil {
		return err
	}
	info, err := c.b.stream.Info(ctx)
	if err != nil {
		return err
	}
	if _, c.unfit = c.b.o.Stream.Compare(info.Config); info.State.Msgs <= covered {
		return nil
	}
	info, err = c.b.stream.Info(ctx, jetstream.WithSubjectFilter(c.b.o.Stream.Filters("*")[0]))
	if err != nil {
		return err
	}
	for subject := range info.State.Subjects {
		class, key, err := c.b.o.Stream.Subjects.ReadJobs(subject)
		if err == nil && wild(class, key) {
			if _, known := c.wild[subject]; !known && len(c.wild) < straysMost {
				c.wild[subject] = 0
			}
			continue
		}
		if code := codeOf(class); err == nil && c.known[code] == nil && len(c.strays) < straysMost {
			c.strays[code] = class
		}
	}
	c.strayNext = time.Now().Add(max(strayEvery, strayShare*time.Since(begin)))
	return nil
}

// covered is how many messages of the stream some consumer has to deliver or has delivered.
func (c *claims) covered(ctx context.Context) (n uint64, err error) {
	list := c.b.stream.ListConsumers(ctx)
	for info := range list.Info() {
		left := info.NumPending + uint64(max(0, info.NumAckPending))
		n += left
		_, code, _ := jobstream.ReadConsumer(info.Name)
		if left == 0 && c.known[code] == nil && code != jobstream.NoClass {
			delete(c.strays, code)
			if c.mine[code] != nil {
				c.release(ctx, code)
			}
		}
	}
	return n, list.Err()
}

// codeOf is a class in the name of a consumer: itself, or a hash of what is no legal name, or stands for something else there.
func codeOf(class string) string {
	illegal := strings.ContainsFunc(class, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
	if illegal || len(class) > 64 || class == jobstream.NoClass {
		sum := sha256.Sum256([]byte(class))
		return "=" + hex.EncodeToString(sum[:16])
	}
	return class
}
