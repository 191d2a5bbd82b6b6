package queue

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rate is the outflow of a bucket: Limit departures in each Period, evenly spaced. It is written limit/period, as in
// 30/60s or 200000/1d.
type Rate struct {
	Limit  int64
	Period time.Duration
}

// Interval is the time between two departures, T = Period / Limit, rounded down to a nanosecond. The scripts use the
// exact quotient.
func (r Rate) Interval() time.Duration {
	if r.Limit <= 0 {
		return 0
	}
	return r.Period / time.Duration(r.Limit)
}

func (r Rate) String() string {
	if r.Period > 0 && r.Period%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d/%dd", r.Limit, r.Period/(24*time.Hour))
	}
	if r.Period%time.Second == 0 && r.Period < 2*time.Minute {
		return fmt.Sprintf("%d/%ds", r.Limit, r.Period/time.Second)
	}
	return fmt.Sprintf("%d/%s", r.Limit, duration(r.Period))
}

const (
	maxPerSecond = 10_000
	maxPeriod    = 366 * 24 * time.Hour
)

func (r Rate) validate() error {
	switch {
	case r.Limit < 1 || r.Period < time.Microsecond:
		return fmt.Errorf("rate %s: limit and period must be above zero", r)
	case r.Period > maxPeriod:
		return fmt.Errorf("rate %s: the period is longer than 366d", r)
	case r.Period%time.Microsecond != 0:
		return fmt.Errorf("rate %s: the period is not a whole number of microseconds", r)
	case float64(r.Limit)/r.Period.Seconds() > maxPerSecond:
		return fmt.Errorf("rate %s is above %d a second", r, maxPerSecond)
	}
	return nil
}

// ParseRate reads limit/period: a whole limit above zero and a Go duration, or whole days as in 1d. The error wraps
// [ErrInvalid].
func ParseRate(s string) (Rate, error) {
	r, err := parseRate(s)
	if err != nil {
		return Rate{}, fmt.Errorf("%w: rate %q: %w; write limit/period, such as 30/60s", ErrInvalid, clip(s), err)
	}
	if err := r.validate(); err != nil {
		return Rate{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return r, nil
}

func parseRate(s string) (Rate, error) {
	limit, period, ok := strings.Cut(s, "/")
	if !ok {
		return Rate{}, errors.New("there is no /")
	}
	n, err := strconv.ParseInt(limit, 10, 64)
	if err != nil {
		return Rate{}, errors.New("the limit is not a whole number")
	}
	if days, ok := strings.CutSuffix(period, "d"); ok {
		d, err := strconv.ParseInt(days, 10, 32)
		if err != nil || d > 366 {
			return Rate{}, errors.New("the period is not a number of days up to 366")
		}
		return Rate{Limit: n, Period: time.Duration(d) * 24 * time.Hour}, nil
	}
	d, err := time.ParseDuration(period)
	if err != nil {
		return Rate{}, errors.New("the period is not a duration")
	}
	return Rate{Limit: n, Period: d}, nil
}

// MarshalText writes limit/period.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is [ParseRate].
func (r *Rate) UnmarshalText(b []byte) error {
	v, err := ParseRate(string(b))
	if err == nil {
		*r = v
	}
	return err
}

// Size is a number of bytes. In text it is a number with an optional unit: 512, 64KiB, 1MiB.
type Size int64

func (s Size) String() string {
	switch {
	case s > 0 && s%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", s>>20)
	case s > 0 && s%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", s>>10)
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText writes the size with the largest unit that leaves it whole.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a number of bytes, KiB or MiB. The error wraps [ErrInvalid].
func (s *Size) UnmarshalText(b []byte) error {
	text, unit := string(b), int64(1)
	if number, ok := strings.CutSuffix(text, "KiB"); ok {
		text, unit = strings.TrimSpace(number), 1<<10
	} else if number, ok := strings.CutSuffix(text, "MiB"); ok {
		text, unit = strings.TrimSpace(number), 1<<20
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > 1<<40/unit {
		return fmt.Errorf("%w: size %q is not a number of bytes, KiB or MiB", ErrInvalid, clip(string(b)))
	}
	*s = Size(n * unit)
	return nil
}
