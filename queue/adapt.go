package queue

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Adapt bounds the rate of a bucket that follows what the called service bears: after a refusal for the rate it falls to
// 85 % of what was refused, and then rises again with time, in a thousand intervals (at least a minute) from nothing to all.
// It is additive increase and multiplicative decrease, as in TCP (Chiu and Jain, 1989), by time and not by success, so that
// buckets that rest recover too. It is never above the class's rate.
type Adapt struct {
	// Min is what the rate does not fall below; above 0. The zero value, with Max, turns adapting off.
	Min Rate `json:"min"`
	// Max is what it does not rise above, at most the class's rate; the zero value means that.
	Max Rate `json:"max,omitzero"`
}

func (a Adapt) on() bool { return a != Adapt{} }

func (a Adapt) validate(rate Rate) error {
	if !a.on() {
		return nil
	}
	low, high := a.shares(rate)
	switch {
	case a.Min == Rate{}:
		return errors.New("adapt needs min, the rate that a bucket keeps however often it is refused")
	case a.Min.validate() != nil:
		return fmt.Errorf("adapt.min: %w", a.Min.validate())
	case a.Max != Rate{} && a.Max.validate() != nil:
		return fmt.Errorf("adapt.max: %w", a.Max.validate())
	case high > 1:
		return fmt.Errorf("adapt.max %s is above the rate %s", a.Max, rate)
	case low > high:
		return errors.New("adapt.min is above what the rate may be")
	}
	return nil
}

// shares are the bounds as parts of a rate.
func (a Adapt) shares(rate Rate) (low, high float64) {
	high = 1
	if a.Max != (Rate{}) {
		high = perSecond(a.Max) / perSecond(rate)
	}
	return perSecond(a.Min) / perSecond(rate), high
}

func perSecond(r Rate) float64 { return float64(r.Limit) / r.Period.Seconds() }

// field is what the scripts read, the two shares, and behind it the settings themselves.
func (a Adapt) field(rate Rate) string {
	if !a.on() {
		return ""
	}
	low, high := a.shares(rate)
	return fmt.Sprintf("%.9f %.9f %d %d %d %d", max(low, 1e-9), high,
		a.Min.Limit, a.Min.Period.Microseconds(), a.Max.Limit, a.Max.Period.Microseconds())
}

func readAdapt(field string) Adapt {
	var low, high float64
	var n [4]int64
	_, _ = fmt.Sscan(field, &low, &high, &n[0], &n[1], &n[2], &n[3]) // what cannot be read is off
	return Adapt{
		Min: Rate{n[0], time.Duration(n[1]) * time.Microsecond},
		Max: Rate{n[2], time.Duration(n[3]) * time.Microsecond},
	}
}

// Adapted is how a bucket follows what its service bears.
type Adapted struct {
	// Now is the part of the class's rate at which the bucket lets jobs go, above 0 and at most 1.
	Now float64 `json:"now"`
	// Sustained is the part that the service bore before it refused, on average over the last refusals, each counting half of
	// the next one.
	Sustained float64 `json:"sustained"`
	// At is when it was last cut.
	At time.Time `json:"at"`
}

// readAdapted reads what the last cut stored, nil when the bucket is back at its rate.
func readAdapted(text string, class Class, now time.Time) *Adapted {
	f := strings.Fields(text)
	if !class.Adapt.on() || len(f) != 4 {
		return nil
	}
	low, high := class.Adapt.shares(class.Rate)
	start, _ := strconv.ParseFloat(f[0], 64)
	bore, _ := strconv.ParseFloat(f[3], 64)
	at, rise := time.UnixMicro(parseInt(f[1])).UTC(), float64(max(1, parseInt(f[2])))
	share := start + float64(now.Sub(at).Microseconds())/rise
	if share >= high {
		return nil
	}
	return &Adapted{Now: math.Max(low, share), Sustained: bore, At: at}
}
