package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// asynq's own tools ask a running task to end: the attempt fails and is retried.
func TestAsynqCancels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := miniSite(t)
		s.class(t, "a", time.Second, func(c *queue.Class) { c.Retention = time.Hour })
		s.work(t, 0, func(ctx context.Context, task *asynq.Task) error {
			if task.Headers()["Spout-Attempt"] != "1" {
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Second):
				return nil
			}
		}, scheduler.Options{})
		ref := s.submitTyped(t, "a/k", "test", 2)[0].Ref
		s.await(t, "a/k", 1)
		pause(100 * time.Millisecond)
		inspector := asynq.NewInspectorFromRedisClient(s.rdb)
		mustDo(t, inspector.CancelProcessing(s.seen("a/k")[0].id))
		pause(time.Minute)
		checkTotals(t, s, queue.Books{Admitted: 2, Departed: 3, Returned: 1, Retried: 1, Done: 2})
		job, err := s.client.Job(t.Context(), ref)
		if err != nil || job.State != queue.Completed || len(job.History) != 2 || job.History[0].Error != context.Canceled.Error() {
			t.Errorf("job: %+v, %v", job, err)
		}
	})
}

// What others do to queues of asynq's, ours by name even, neither starts anything here nor stops or loses anything.
func TestOtherHandsOnAsynq(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const jobs, interval = 40, time.Second
		s := miniSite(t)
		s.class(t, "a", interval)
		foreign := asynq.NewClientFromRedisClient(s.rdb)
		inspector := asynq.NewInspectorFromRedisClient(s.rdb)
		enqueue := func(id string) {
			for _, queue := range []string{"spout", "default"} {
				for _, o := range []asynq.Option{asynq.ProcessIn(0), asynq.ProcessIn(5 * time.Second)} {
					_, err := foreign.Enqueue(asynq.NewTask("foreign", []byte("-7")), asynq.Queue(queue), o, asynq.Retention(time.Hour))
					mustDo(t, err)
				}
				_, err := foreign.Enqueue(asynq.NewTask("foreign", nil), asynq.Queue(queue), asynq.TaskID(id))
				mustDo(t, err)
			}
		}
		enqueue("before")
		w := s.work(t, 0, takes(400*time.Millisecond), scheduler.Options{})
		s.submit(t, "a/k", jobs)
		s.await(t, "a/k", 5)
		enqueue(s.seen("a/k")[4].id) // one that runs
		mustDo(t, inspector.PauseQueue("spout"), inspector.PauseQueue("default"))
		s.await(t, "a/k", jobs)
		pause(time.Minute)
		checkBucket(t, s, "a/k", interval, jobs)
		checkTotals(t, s, queue.Books{Admitted: jobs, Departed: jobs, Done: jobs})
		w.stop(t)
		if lines := w.log.lines("level=WARN"); len(lines) > 0 {
			t.Errorf("logged %q", lines)
		}
		for _, queue := range []string{"spout", "default"} {
			info, err := inspector.GetQueueInfo(queue)
			mustDo(t, err)
			if got := fmt.Sprint(info.Pending, info.Scheduled, info.Size, info.Processed, info.Failed); got != "4 2 6 0 0" {
				t.Errorf("asynq's queue %s holds: %s", queue, got)
			}
		}
	})
}
