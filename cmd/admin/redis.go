package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/changes"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// onRedis is an operator who has Redis itself, and with it may do all.
type onRedis struct{ *desk.Desk }

func openRedis(ctx context.Context, s *command.Session) (context.Context, operator, error) {
	client, err := s.Open(ctx)
	if err != nil {
		return ctx, nil, err
	}
	me := access.Person{Name: userAtHost(), Role: access.Admin}
	return access.With(ctx, me), onRedis{desk.New(client, "cli", s.Log)}, nil
}

// userAtHost is who the log of changes says it was.
func userAtHost() string {
	name := "unknown"
	if who, err := user.Current(); err == nil {
		name = who.Username
	}
	host, _ := os.Hostname() // a machine without a name is left out
	return name + "@" + cmp.Or(host, "unknown")
}

func (o onRedis) States(ctx context.Context) ([]classState, error) {
	classes, err := o.Classes(ctx)
	if err != nil {
		return nil, err
	}
	states := make([]classState, len(classes))
	for i, class := range classes {
		if states[i], err = o.state(ctx, class); err != nil {
			return nil, err
		}
	}
	return states, nil
}

func (o onRedis) State(ctx context.Context, name string) (classState, error) {
	class, err := o.Class(ctx, name)
	if err != nil {
		return classState{}, err
	}
	return o.state(ctx, class)
}

func (o onRedis) state(ctx context.Context, class queue.Class) (classState, error) {
	books, err := o.Books(ctx, class.Name)
	return classState{class, books.Waiting(), books.Out()}, err
}

func (o onRedis) HoldFor(ctx context.Context, t target, period time.Duration) (changed bool, err error) {
	now, err := o.Now(ctx) // the clock that counts
	if err != nil {
		return false, err
	}
	return o.Hold(ctx, t, now.Add(period))
}

func (o onRedis) CountWaiting(ctx context.Context, t target) (string, error) {
	if t.Key == "" {
		books, err := o.Books(ctx, t.Class)
		return fmt.Sprint(books.Waiting()), err
	}
	bucket, err := o.Bucket(ctx, t)
	return fmt.Sprint(bucket.Level), err
}

func (o onRedis) CountDead(ctx context.Context, t target) (string, error) {
	n, err := o.DeadCountOf(ctx, t)
	return fmt.Sprint(n), err
}

func (o onRedis) Revive(ctx context.Context, t target, wait bool, progress func(queue.Revival)) (queue.Revival, error) {
	if wait {
		return o.Desk.Revive(ctx, t, time.Time{}, progress)
	}
	return o.RetryDead(ctx, t, time.Time{}, progress)
}

func (o onRedis) Changes(ctx context.Context, t target, limit int) ([]wire.LoggedChange, error) {
	var list []wire.LoggedChange
	q := changes.Query{Class: t.Class, Limit: min(limit, pageMost)}
	if t.Key != "" {
		q.Target = t.String()
	}
	for {
		page, next, err := o.Desk.Changes(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, c := range page {
			if list = append(list, wire.LoggedChange(c)); len(list) == limit {
				return list, nil
			}
		}
		if next == "" {
			return list, nil
		}
		q.Before = next
	}
}
