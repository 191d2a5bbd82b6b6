package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/admin/client"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// onAPI is an operator who goes through the HTTP API of a server, and may do what their token may.
type onAPI struct{ *client.Client }

func openAPI(ctx context.Context, s *command.Session) (context.Context, operator, error) {
	token, err := tokenOf(s)
	if err != nil {
		return ctx, nil, err
	}
	api, err := client.New(s.Flags.String("api"), client.Options{
		Token: token, PlainHTTP: s.Flags.Bool("plain-http"), UserAgent: "spout-admin",
	})
	if err != nil {
		return ctx, nil, s.Wrong("api", err)
	}
	return ctx, onAPI{api}, nil
}

// tokenOf is in the file, or in the environment. It is no flag: command lines can be seen by others.
func tokenOf(s *command.Session) (string, error) {
	name := s.Flags.String("token-file")
	if name == "" {
		return strings.TrimSpace(s.Getenv("SPOUT_TOKEN")), nil
	}
	token, err := os.ReadFile(name) //nolint:gosec // the operator names it
	if err != nil {
		return "", s.Wrong("token-file", err)
	}
	return strings.TrimSpace(string(token)), nil
}

func (o onAPI) States(ctx context.Context) ([]classState, error) {
	classes, err := o.Classes(ctx)
	states := make([]classState, len(classes))
	for i, class := range classes {
		states[i] = classState(class)
	}
	return states, err
}

func (o onAPI) State(ctx context.Context, name string) (classState, error) {
	class, err := o.Client.Class(ctx, name)
	return classState(class), err
}

func (o onAPI) Class(ctx context.Context, name string) (queue.Class, error) {
	class, err := o.Client.Class(ctx, name)
	return class.Class, err
}

func (o onAPI) RemoveClass(ctx context.Context, name string, purge bool) (desk.Removal, error) {
	waiting, dead, err := o.Client.RemoveClass(ctx, name, purge)
	return desk.Removal{Class: name, Removed: err == nil, Waiting: waiting, Dead: dead}, err
}

func (o onAPI) Bucket(ctx context.Context, t target) (queue.Bucket, error) {
	return o.Client.Bucket(ctx, t.Class, t.Key)
}

// Buckets goes through all of them: the fullest that the API lists are fewer.
func (o onAPI) Buckets(ctx context.Context, class string, limit int) ([]queue.Bucket, error) {
	if class == "" { // the client takes that for all of them
		return nil, fmt.Errorf("%w: %q", queue.ErrUnknownClass, class)
	}
	var list []queue.Bucket
	seen := map[string]bool{}
	for bucket, err := range o.Client.Buckets(ctx, queue.BucketQuery{Class: class, Limit: min(limit, pageMost)}) {
		if err != nil {
			return nil, err
		}
		if seen[bucket.Key] { // it moved from one page to another
			continue
		}
		seen[bucket.Key] = true
		if list = append(list, bucket); len(list) == limit {
			break
		}
	}
	return list, nil
}

func (o onAPI) Pause(ctx context.Context, t target) (changed bool, err error) {
	return o.Client.Pause(ctx, t.Class, t.Key)
}

func (o onAPI) Resume(ctx context.Context, t target) (changed bool, err error) {
	return o.Client.Resume(ctx, t.Class, t.Key)
}

func (o onAPI) Drain(ctx context.Context, t target) (changed bool, err error) {
	return o.Client.Drain(ctx, t.Class, t.Key)
}

func (o onAPI) Unhold(ctx context.Context, t target) (changed bool, err error) {
	return o.Client.Unhold(ctx, t.Class, t.Key)
}

func (o onAPI) Hold(ctx context.Context, t target, until time.Time) (changed bool, err error) {
	return o.Client.Hold(ctx, t.Class, t.Key, until)
}

func (o onAPI) HoldFor(ctx context.Context, t target, period time.Duration) (changed bool, err error) {
	return o.Client.HoldFor(ctx, t.Class, t.Key, period)
}

func (o onAPI) CountWaiting(ctx context.Context, t target) (string, error) {
	n, err := o.WouldPurge(ctx, t.Class, t.Key)
	return fmt.Sprint(n), err
}

func (o onAPI) Purge(ctx context.Context, t target) (int, error) {
	return o.Client.Purge(ctx, t.Class, t.Key)
}

func (o onAPI) CountDead(ctx context.Context, t target) (string, error) {
	n, err := o.WouldPurgeDead(ctx, t.Class, t.Key)
	return fmt.Sprint(n), err
}

func (o onAPI) PurgeDead(ctx context.Context, t target) (int, error) {
	return o.Client.PurgeDead(ctx, t.Class, t.Key)
}

func (o onAPI) Jobs(ctx context.Context, t target, dead bool, limit int) ([]queue.JobState, error) {
	if dead {
		return o.Dead(ctx, queue.DeadQuery{Class: t.Class, Key: t.Key, Limit: limit})
	}
	var jobs []queue.JobState
	for job, err := range o.Client.Jobs(ctx, queue.JobQuery{Class: t.Class, Key: t.Key, State: queue.Waiting, Limit: min(limit, pageMost)}) {
		if err != nil {
			return nil, err
		}
		if jobs = append(jobs, job); len(jobs) == limit {
			break
		}
	}
	return jobs, nil
}

// pageMost is how many things the API puts on one page.
const pageMost = 1000

func (o onAPI) Dead(ctx context.Context, q queue.DeadQuery) ([]queue.JobState, error) {
	limit := q.Limit
	q.Limit = min(limit, pageMost)
	var jobs []queue.JobState
	for job, err := range o.Client.Dead(ctx, q) {
		if err != nil {
			return nil, err
		}
		if jobs = append(jobs, job); len(jobs) == limit {
			break
		}
	}
	return jobs, nil
}

func (o onAPI) Revive(ctx context.Context, t target, wait bool, progress func(queue.Revival)) (queue.Revival, error) {
	return o.RetryAllDead(ctx, t.Class, t.Key, wait, progress)
}

func (o onAPI) Changes(ctx context.Context, t target, limit int) ([]wire.LoggedChange, error) {
	var list []wire.LoggedChange
	for c, err := range o.Client.Changes(ctx, t.Class, t.Key) {
		if err != nil {
			return nil, err
		}
		if list = append(list, wire.LoggedChange(c)); len(list) == limit {
			break
		}
	}
	return list, nil
}
