// Package figures draws the pictures of docs/meter.md and counts its figures, by the meters themselves in virtual time: its
// test runs them, so that what the page shows is what the code does.
package figures

//go:generate go test -count=1 -run=^TestFigures$ -update .

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spout-queue/spout/meter"
)

// Lane is what one limit made of a trace.
type Lane struct {
	Name  string
	Limit int64 // the largest cost that conforms
	// Admitted and Refused arrivals, since the begin.
	Admitted, Refused []time.Duration
	// Used units by time, from the begin in steps of Step.
	Used []int64
}

// Step is the distance of the samples of Lane.Used.
const Step = 10 * time.Millisecond

// Run sends the arrivals, in order, to a meter in memory, and returns when length has passed. It waits for the times of the
// arrivals, so it belongs into a bubble of testing/synctest.
func Run(ctx context.Context, name string, l meter.Limit, arrivals []time.Duration, length time.Duration) (Lane, error) {
	m, err := meter.New(meter.Memory(), l, meter.Options{})
	if err != nil {
		return Lane{}, err
	}
	lane := Lane{Name: name}
	begin := time.Now()
	for at := time.Duration(0); at <= length; at += Step {
		<-time.After(time.Until(begin.Add(at)))
		for len(arrivals) > 0 && arrivals[0] < at+Step {
			<-time.After(time.Until(begin.Add(arrivals[0])))
			d, err := m.Check(ctx, "everybody", 1)
			if err != nil {
				return Lane{}, err
			}
			if d.Conform {
				lane.Admitted = append(lane.Admitted, arrivals[0])
			} else {
				lane.Refused = append(lane.Refused, arrivals[0])
			}
			arrivals = arrivals[1:]
		}
		d, err := m.Peek(ctx, "everybody", 0)
		if err != nil {
			return Lane{}, err
		}
		lane.Limit = d.Limit
		lane.Used = append(lane.Used, d.Limit-d.Remaining)
	}
	return lane, nil
}

// Most is the most admitted in any window (t - w, t].
func (l Lane) Most(w time.Duration) int { return mostWithin(l.Admitted, w) }

func mostWithin(times []time.Duration, w time.Duration) int {
	most, first := 0, 0
	for i, at := range times {
		for times[first] <= at-w {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// Mixed is the trace of the large picture: two calls, a burst on either side of a window's edge, a pause, and 12/s.
func Mixed() []time.Duration {
	trace := []time.Duration{200 * time.Millisecond, 500 * time.Millisecond}
	for i := range 8 {
		trace = append(trace, 810*time.Millisecond+time.Duration(i)*24*time.Millisecond)
	}
	for i := range 8 {
		trace = append(trace, 1010*time.Millisecond+time.Duration(i)*24*time.Millisecond)
	}
	for i := range 20 {
		trace = append(trace, 2320*time.Millisecond+time.Duration(i)*83*time.Millisecond)
	}
	return trace
}

// Edge is the trace of the small picture: five calls just before the edge of a window, five just after it.
func Edge() []time.Duration {
	var trace []time.Duration
	for i := range 5 {
		trace = append(trace, 900*time.Millisecond+time.Duration(i)*20*time.Millisecond)
	}
	for i := range 5 {
		trace = append(trace, 1010*time.Millisecond+time.Duration(i)*20*time.Millisecond)
	}
	return trace
}

// An arrival of a client.
type arrival struct {
	at     time.Duration
	client int
}

// traffic is shaped like that of a public service: clients of very different size, each with bursts, long pauses now and then, and a
// swing over the hours. It is the same each time.
func traffic(clients int, perMinute float64, length time.Duration) []arrival {
	r := rand.New(rand.NewPCG(20, 26)) //nolint:gosec // a trace that anybody can draw again
	var all []arrival
	for client := range clients {
		size := perMinute * math.Exp(0.6*r.NormFloat64()) / 60 // calls a second, log-normal over the clients
		at := time.Duration(r.Float64() * float64(time.Minute))
		for at < length {
			swing := 1 + 0.5*math.Sin(2*math.Pi*at.Hours()/4)
			for range 1 + int(60*r.ExpFloat64()) { // a burst: three times as fast
				at += time.Duration(r.ExpFloat64() / (3 * size * swing) * float64(time.Second)).Truncate(time.Microsecond)
				all = append(all, arrival{at, client})
			}
			pause := 10 * math.Pow(1-r.Float64(), -1/1.5) // Pareto: mean 30 s, sometimes many minutes
			at += time.Duration(min(pause, 1800) * float64(time.Second)).Truncate(time.Microsecond)
		}
	}
	slices.SortFunc(all, func(a, b arrival) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.client, b.client)) })
	return slices.DeleteFunc(all, func(a arrival) bool { return a.at >= length })
}

// Estimate is how well a sliding counter did on a trace.
type Estimate struct {
	Arrivals, Admitted int
	// WronglyAdmitted were more than the limit in the last period, WronglyRefused were not.
	WronglyAdmitted, WronglyRefused int
	// Most admitted in any period.
	Most int
	// LogAdmitted is what an exact log admitted of the same trace.
	LogAdmitted int
}

// Traffic is what Judge sends: 4 hours of 20 clients, whose sizes lie around 60 calls a minute.
const (
	TrafficClients = 20
	TrafficLength  = 4 * time.Hour
)

// Judge sends traffic to a sliding counter and to a log of the same limit, and compares each answer of the counter with what
// it admitted before. It belongs into a bubble of testing/synctest.
func Judge(ctx context.Context, count int64, period time.Duration) (Estimate, error) {
	counter, err := meter.New(meter.Memory(), meter.Limit{Algorithm: meter.SlidingCounter, Count: count, Period: period}, meter.Options{})
	if err != nil {
		return Estimate{}, err
	}
	log, err := meter.New(meter.Memory(), meter.Limit{Algorithm: meter.SlidingLog, Count: count, Period: period}, meter.Options{})
	if err != nil {
		return Estimate{}, err
	}
	var e Estimate
	admitted := make([][]time.Duration, TrafficClients)
	begin := time.Now()
	for _, a := range traffic(TrafficClients, 60, TrafficLength) {
		<-time.After(time.Until(begin.Add(a.at)))
		key := fmt.Sprint("client:", a.client)
		exact, err := log.Check(ctx, key, 1)
		if err != nil {
			return Estimate{}, err
		}
		estimate, err := counter.Check(ctx, key, 1)
		if err != nil {
			return Estimate{}, err
		}
		e.add(a.at, period, count, &admitted[a.client], estimate.Conform, exact.Conform)
	}
	for _, times := range admitted {
		e.Most = max(e.Most, mostWithin(times, period))
	}
	return e, nil
}

// add counts one answer; admitted is what the counter admitted to the client until now.
func (e *Estimate) add(at, period time.Duration, count int64, admitted *[]time.Duration, conform, exact bool) {
	recent := len(*admitted)
	for recent > 0 && (*admitted)[recent-1] > at-period {
		recent--
	}
	room := int64(len(*admitted)-recent) < count
	e.Arrivals++
	if exact {
		e.LogAdmitted++
	}
	switch {
	case conform:
		e.Admitted++
		*admitted = append(*admitted, at)
		if !room {
			e.WronglyAdmitted++
		}
	case room:
		e.WronglyRefused++
	}
}
