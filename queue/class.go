package queue

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Class is the settings shared by all buckets of a class. The zero value of a field with a default means zero, not
// the default: start from [NewClass].
type Class struct {
	// Name is [a-z0-9][a-z0-9_-]{0,63}.
	Name string
	// Capacity is the most jobs that may wait per key, 1 to 1,000,000.
	Capacity int
	// Rate is the departures per key, at most 10,000 a second.
	Rate Rate
	// CatchUp is how late a departure may be and still keep its slot, 0 to 1 s. Defaults to 5 ms.
	CatchUp time.Duration
	// MaxWait rejects a job that would wait longer and expires one that has; 0 is no limit. A delayed job begins to
	// wait when it joins the line.
	MaxWait time.Duration
	// MaxJobs is the most jobs that may wait over all keys of the class; 0 is no bound. It is exact for submissions
	// one after the other; submissions under way at the same moment in different shards may exceed it by their number.
	MaxJobs int
	// Timeout bounds one attempt, 1 ms to 24 h. Defaults to 30 s.
	Timeout time.Duration
	// Dedup is how long, from admission on, an identity is remembered after its job is gone; 0, the default, is not
	// at all. At most 8760 h.
	Dedup time.Duration
	// MaxPayload is the largest payload in bytes, 1 to 1 MiB. Defaults to 256 KiB.
	MaxPayload Size
	// HTTP is for http:call jobs of the class: what they may reach, and how services are heard.
	HTTP HTTP
	// MaxInFlight is the most departures of one bucket that may be out at once; 0 is no bound.
	MaxInFlight int
	// Overflow is what a full bucket does with a submission. Defaults to [Reject].
	Overflow Overflow
	// Retention is how long a finished job, its attempts and its result can be read; 0, the default, is not at all. At
	// most 8760 h.
	Retention time.Duration
	// Retry says what becomes of a failed attempt.
	Retry Retry
	// MaxCrashes is how many workers a job may take down with it before it is dead, 1 to 100. The last one before that
	// runs apart from other suspects; a job that never did is not condemned. Defaults to 3.
	MaxCrashes int
	// Dead bounds the dead jobs that are kept.
	Dead DeadLimits
	// Ack is what a receipt vouches for. Defaults to [AckMemory].
	Ack Ack
	// Pace says how exactly starts keep the interval. Defaults to [PaceNormal].
	Pace Pace
	// Adapt lets the rate of each bucket follow what the called service bears, below Rate; the zero value is off.
	Adapt Adapt
	// Hold is until when the class is closed, and HoldReason why; zero when it is not. It is not a setting: see [Classes.Hold].
	Hold       time.Time
	HoldReason string
	// Paused tells whether the class is closed until it is resumed. It is not a setting: see [Classes.Pause].
	Paused bool
	// Draining tells whether the class admits nothing until it is resumed. It is not a setting: see [Classes.Drain].
	Draining bool
	// Version counts changes; [Classes.Put] sets it.
	Version int64
}

// Retry says what becomes of a failed attempt.
type Retry struct {
	// MaxAttempts is how many attempts may fail before the job is dead, 1 to 100. Defaults to 5.
	MaxAttempts int
	// Backoff and MaxBackoff bound the time before the next attempt, 1 ms to 720 h: after the n-th failure it is drawn
	// from between Backoff and the smaller of MaxBackoff and Backoff * 2^n. Default to 1 s and 5 min.
	Backoff, MaxBackoff time.Duration
	// Order is where the job waits meanwhile. Defaults to [Park].
	Order Order
}

// Order is where a job waits for its next attempt.
type Order string

// The orders.
const (
	Park Order = "park" // aside; then it re-enters its line at the head
	Hold Order = "hold" // at the head of its line; nothing leaves the bucket before the job is final
	Tail Order = "tail" // aside; then it re-enters its line at the tail
)

// Overflow is what a full bucket does with a submission.
type Overflow string

// The overflows.
const (
	Reject     Overflow = "reject"      // refuse it and say when to come back
	DropOldest Overflow = "drop-oldest" // drop the job that would leave next, and admit it
)

// DeadLimits bound the dead jobs of a class. What is removed by them is counted.
type DeadLimits struct {
	// Max is the most that are kept, the newest; 0 to 10,000,000. Defaults to 100,000.
	Max int
	// Keep is how long each is kept, 1 s to 87600 h. Defaults to 720 h.
	Keep time.Duration
}

// Pace says how exactly starts keep the interval.
type Pace string

// The paces.
const (
	// PaceNormal starts an attempt while its departure is good: starts conform to GCRA(T, catch_up + freshness).
	PaceNormal Pace = "normal"
	// PaceStrict asks Redis once more at the start of each attempt: starts conform to GCRA(T, [StrictFreshness]).
	PaceStrict Pace = "strict"
)

// NewClass returns a class with the defaults of all optional settings.
func NewClass(name string, capacity int, rate Rate) Class {
	return Class{
		Name: name, Capacity: capacity, Rate: rate,
		CatchUp: 5 * time.Millisecond, Timeout: 30 * time.Second, MaxPayload: 256 << 10,
		Overflow: Reject, MaxCrashes: 3, Ack: AckMemory, Pace: PaceNormal,
		Retry: Retry{MaxAttempts: 5, Backoff: time.Second, MaxBackoff: 5 * time.Minute, Order: Park},
		Dead:  DeadLimits{Max: 100_000, Keep: 720 * time.Hour},
		HTTP:  HTTP{Hold: HoldBucket, MaxHold: defaultMaxHold},
	}
}

// MaxPayload is the largest payload that any class can allow, in bytes.
const MaxPayload = 1 << 20

// isClassName tells whether a name is [a-z0-9][a-z0-9_-]{0,63}. Every submission asks.
func isClassName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (i == 0 || c != '_' && c != '-') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// Validate reports every setting that is out of its range, or nil. The error wraps [ErrInvalid].
func (c Class) Validate() error {
	var bad []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Sprintf(format, args...))
		}
	}
	within := func(field string, d, low, high time.Duration) {
		check(d >= low && d <= high, "%s %v is not between %v and %v", field, d, low, high)
	}
	check(isClassName(c.Name), "name %q is not [a-z0-9][a-z0-9_-]{0,63}", clip(c.Name))
	check(c.Capacity >= 1 && c.Capacity <= 1_000_000, "capacity %d is not between 1 and 1000000", c.Capacity)
	if err := c.Rate.validate(); err != nil {
		bad = append(bad, err.Error())
	}
	within("catch_up", c.CatchUp, 0, time.Second)
	within("max_wait", c.MaxWait, 0, 8760*time.Hour)
	check(c.MaxWait == 0 || c.MaxWait >= time.Millisecond, "max_wait %v is below 1ms", c.MaxWait)
	check(c.MaxJobs >= 0, "max_jobs %d is negative", c.MaxJobs)
	within("timeout", c.Timeout, time.Millisecond, 24*time.Hour)
	within("dedup", c.Dedup, 0, 8760*time.Hour)
	check(c.MaxPayload >= 1 && c.MaxPayload <= MaxPayload, "max_payload %d is not between 1 and %d bytes", c.MaxPayload, MaxPayload)
	check(c.MaxInFlight >= 0 && c.MaxInFlight <= 1_000_000, "max_in_flight %d is not between 0 and 1000000", c.MaxInFlight)
	check(c.Overflow == Reject || c.Overflow == DropOldest, "overflow %q is neither reject nor drop-oldest", clip(string(c.Overflow)))
	within("retention", c.Retention, 0, 8760*time.Hour)
	check(c.Retry.MaxAttempts >= 1 && c.Retry.MaxAttempts <= 100, "retry.max_attempts %d is not between 1 and 100", c.Retry.MaxAttempts)
	within("retry.backoff", c.Retry.Backoff, time.Millisecond, 720*time.Hour)
	within("retry.max_backoff", c.Retry.MaxBackoff, time.Millisecond, 720*time.Hour)
	check(c.Retry.MaxBackoff >= c.Retry.Backoff, "retry.max_backoff %v is below retry.backoff %v", c.Retry.MaxBackoff, c.Retry.Backoff)
	check(slices.Contains([]Order{Park, Hold, Tail}, c.Retry.Order), "retry.order %q is none of park, hold and tail", clip(string(c.Retry.Order)))
	check(c.MaxCrashes >= 1 && c.MaxCrashes <= 100, "max_crashes %d is not between 1 and 100", c.MaxCrashes)
	check(c.Dead.Max >= 0 && c.Dead.Max <= 10_000_000, "dead.max %d is not between 0 and 10000000", c.Dead.Max)
	within("dead.keep", c.Dead.Keep, time.Second, 87600*time.Hour)
	if _, err := ParseAck(string(c.Ack)); err != nil {
		bad = append(bad, strings.TrimPrefix(err.Error(), ErrInvalid.Error()+": "))
	}
	if err := c.Adapt.validate(c.Rate); err != nil {
		bad = append(bad, err.Error())
	}
	check(c.Pace == PaceNormal || c.Pace == PaceStrict, "pace %q is neither normal nor strict", clip(string(c.Pace)))
	c.HTTP.validate(check)
	if bad != nil {
		return fmt.Errorf("%w: class %q: %s", ErrInvalid, clip(c.Name), strings.Join(bad, "; "))
	}
	return nil
}

// bounded tells whether the class bounds what one bucket may have out.
func (c Class) bounded() bool { return c.MaxInFlight > 0 || c.Retry.Order == Hold }

// Equal tells whether two classes have the same settings, whatever their versions.
func (c Class) Equal(d Class) bool { return slices.Equal(c.settings(), d.settings()) }

// classJSON is the one shape of a class in JSON, in the words of the class file.
type classJSON struct {
	Name       string `json:"name"`
	Capacity   int    `json:"capacity"`
	Rate       Rate   `json:"rate"`
	CatchUp    string `json:"catch_up"`
	MaxWait    string `json:"max_wait,omitempty"`
	MaxJobs    int    `json:"max_jobs"`
	Timeout    string `json:"timeout"`
	Dedup      string `json:"dedup"`
	MaxPayload Size   `json:"max_payload"`
	HTTP       HTTP   `json:"http"`

	MaxInFlight int       `json:"max_in_flight"`
	Overflow    Overflow  `json:"overflow"`
	Retention   string    `json:"retention"`
	Retry       retryJSON `json:"retry"`
	MaxCrashes  int       `json:"max_crashes"`
	Dead        deadJSON  `json:"dead"`
	Ack         Ack       `json:"ack"`
	Pace        Pace      `json:"pace"`
	Adapt       *Adapt    `json:"adapt,omitempty"`

	Hold       string `json:"hold,omitempty"`
	HoldReason string `json:"hold_reason,omitempty"`

	Paused   bool  `json:"paused"`
	Draining bool  `json:"draining"`
	Version  int64 `json:"version"`
}

type retryJSON struct {
	MaxAttempts int    `json:"max_attempts"`
	Backoff     string `json:"backoff"`
	MaxBackoff  string `json:"max_backoff"`
	Order       Order  `json:"order"`
}

type deadJSON struct {
	Max  int    `json:"max"`
	Keep string `json:"keep"`
}

// MarshalJSON writes the class in the words of the class file.
func (c Class) MarshalJSON() ([]byte, error) {
	j := classJSON{
		Name: c.Name, Capacity: c.Capacity, Rate: c.Rate, CatchUp: duration(c.CatchUp), MaxJobs: c.MaxJobs,
		Timeout: duration(c.Timeout), Dedup: duration(c.Dedup), MaxPayload: c.MaxPayload, HTTP: c.HTTP,
		MaxInFlight: c.MaxInFlight, Overflow: c.Overflow, Retention: duration(c.Retention),
		Retry: retryJSON{
			MaxAttempts: c.Retry.MaxAttempts, Backoff: duration(c.Retry.Backoff),
			MaxBackoff: duration(c.Retry.MaxBackoff), Order: c.Retry.Order,
		},
		MaxCrashes: c.MaxCrashes, Dead: deadJSON{c.Dead.Max, duration(c.Dead.Keep)}, Ack: c.Ack, Pace: c.Pace,
		Paused: c.Paused, Draining: c.Draining, Version: c.Version,
		Hold: shownTime(c.Hold), HoldReason: c.HoldReason,
	}
	if c.Adapt.on() {
		j.Adapt = &c.Adapt
	}
	if c.MaxWait > 0 {
		j.MaxWait = duration(c.MaxWait)
	}
	return json.Marshal(j)
}

// settings are the fields of the class's hash in Redis: durations in microseconds.
func (c Class) settings() []string {
	return []string{
		"capacity", fmt.Sprint(c.Capacity),
		"limit", fmt.Sprint(c.Rate.Limit),
		"period", fmt.Sprint(c.Rate.Period.Microseconds()),
		"catch_up", fmt.Sprint(c.CatchUp.Microseconds()),
		"max_wait", fmt.Sprint(c.MaxWait.Microseconds()),
		"max_jobs", fmt.Sprint(c.MaxJobs),
		"timeout", fmt.Sprint(c.Timeout.Microseconds()),
		"dedup", fmt.Sprint(c.Dedup.Microseconds()),
		"max_payload", fmt.Sprint(int64(c.MaxPayload)),
		"http", c.HTTP.setting(),
		"max_in_flight", fmt.Sprint(c.MaxInFlight),
		"overflow", string(c.Overflow),
		"retention", fmt.Sprint(c.Retention.Microseconds()),
		"max_attempts", fmt.Sprint(c.Retry.MaxAttempts),
		"backoff", fmt.Sprint(c.Retry.Backoff.Microseconds()),
		"max_backoff", fmt.Sprint(c.Retry.MaxBackoff.Microseconds()),
		"order", string(c.Retry.Order),
		"max_crashes", fmt.Sprint(c.MaxCrashes),
		"dead_max", fmt.Sprint(c.Dead.Max),
		"dead_keep", fmt.Sprint(c.Dead.Keep.Microseconds()),
		"ack", string(c.Ack),
		"pace", string(c.Pace),
		"adapt", c.Adapt.field(c.Rate),
		// For people who look; and a value of more than 64 bytes makes Redis keep the fields in a table, which it
		// reads faster than a list of them.
		"note", "written by Classes.Put, the same in all shards; durations are microseconds",
	}
}

// readClass is the inverse of settings.
func readClass(name string, h map[string]string) (Class, error) {
	var r fields = h
	c := NewClass(name, int(r.int("capacity")), Rate{Limit: r.int("limit"), Period: r.micros("period")})
	c.CatchUp, c.MaxWait, c.Timeout, c.Dedup = r.micros("catch_up"), r.micros("max_wait"), r.micros("timeout"), r.micros("dedup")
	c.MaxJobs, c.MaxPayload = int(r.int("max_jobs")), Size(r.int("max_payload"))
	c.Paused, c.Draining, c.Version = h["paused"] != "", h["draining"] != "", r.int("version")
	if h["order"] != "" { // a class of before retries has their defaults
		c.MaxInFlight, c.MaxCrashes = int(r.int("max_in_flight")), int(r.int("max_crashes"))
		c.Overflow, c.Ack, c.Pace = Overflow(h["overflow"]), Ack(h["ack"]), Pace(h["pace"])
		c.Retention = r.micros("retention")
		c.Retry = Retry{int(r.int("max_attempts")), r.micros("backoff"), r.micros("max_backoff"), Order(h["order"])}
		c.Dead = DeadLimits{int(r.int("dead_max")), r.micros("dead_keep")}
	}
	if h["adapt"] != "" {
		c.Adapt = readAdapt(h["adapt"])
	}
	if until := r.int("hold"); until > 0 { // taken away once it is over
		c.Hold, c.HoldReason = time.UnixMicro(until).UTC(), h["hold_reason"]
	}
	if h["http"] != "" {
		if err := json.Unmarshal([]byte(h["http"]), &c.HTTP); err != nil {
			return c, fmt.Errorf("class %s: read http settings: %w", name, err)
		}
	}
	return c, nil
}

// duration writes a duration without the zero units that Go's String adds: 10m, not 10m0s.
func duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// StrictFreshness is how long the start of an attempt with [PaceStrict] may take once it was permitted.
const StrictFreshness = 10 * time.Millisecond
