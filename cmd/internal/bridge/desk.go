package bridge

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/spout-queue/spout/queue"
)

// request is one that waits for its job to be admitted.
type request struct {
	reply string
	job   queue.Job
}

// desk collects requests for as long as calls to Redis are under way. So many share a call, and their answers, given all at
// once, a write to NATS. Its goroutines live only while there is work.
type desk struct {
	s   *service
	ctx context.Context //nolint:containedctx // of the service: no request has one

	mu      sync.Mutex
	waiting []request
	calls   int
}

// take takes a request that has its place.
func (d *desk) take(r request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = append(d.waiting, r)
	if d.calls < callsFew || d.calls < callsMost && len(d.waiting) >= callJobs {
		d.calls++
		go d.work()
	}
}

// work makes call after call until nobody waits.
func (d *desk) work() {
	for batch := d.next(); batch != nil; batch = d.next() {
		d.submit(batch)
	}
}

// next takes the requests of one call, or ends the work.
func (d *desk) next() []request {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) == 0 {
		d.calls--
		return nil
	}
	n, bytes := 1, len(d.waiting[0].job.Payload)
	for n < min(len(d.waiting), callJobs) {
		if bytes += len(d.waiting[n].job.Payload); bytes > callBytes {
			break
		}
		n++
	}
	batch := d.waiting[:n:n]
	d.waiting = d.waiting[n:]
	return batch
}

// submit admits the jobs of a batch and answers.
func (d *desk) submit(batch []request) {
	ctx, cancel := context.WithTimeout(d.ctx, d.s.b.o.RequestTime)
	defer cancel()
	jobs := make([]queue.Job, len(batch))
	for i, r := range batch {
		jobs[i] = r.job
	}
	for i, result := range d.s.b.o.Queue.SubmitMany(ctx, jobs) {
		d.s.send(d.answer(batch[i], result))
		<-d.s.places
	}
}

func (d *desk) answer(r request, result queue.Result) *nats.Msg {
	r.job.ID = result.Receipt.ID
	d.s.b.tell(r.job, result.Receipt, result.Err)
	m := &nats.Msg{Subject: r.reply}
	if result.Err != nil {
		m.Header, m.Data = refusal(result.Err)
		return m
	}
	data, err := result.Receipt.MarshalJSON()
	if err != nil {
		panic(err) // a shape of strings and numbers always marshals
	}
	m.Data = data
	return m
}
