package meter

import "time"

// operation is what a call does with a meter. The scripts know them by these numbers.
type operation int64

const (
	opPeek   operation = iota // decide, change nothing
	opTake                    // take from least to most units when least conform
	opForce                   // take least units whether they conform or not
	opRefund                  // give back up to least units
)

// call is one question to one meter.
type call struct {
	op          operation
	least, most int64
	// Of opTake on a bucket: the longest wait, µs, until what is taken conforms.
	// Of opRefund: when the units were taken, µs, 0 for whenever: a window gives back only what still counts in it.
	arg int64
}

// verdict of a meter.
type verdict int64

const (
	refused    verdict = 0
	conforming verdict = 1
	outOfRange verdict = -1
)

// answer is what a store says to a call; durations and times in µs.
type answer struct {
	verdict   verdict
	remaining int64
	retry     int64 // until least conforms; -1 never. Of what was taken ahead: until it conforms
	reset     int64
	taken     int64
	at        int64 // the time the meter took for now
	away      bool  // the store did not say this
}

const never = -1

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
