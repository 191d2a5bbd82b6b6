package queue

import (
	"encoding/json"
	"fmt"
	"regexp"
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
	// HTTP narrows or widens what http:call jobs of the class may reach.
	HTTP HTTP
	// Paused tells whether the class is closed until it is resumed. It is not a setting: see [Classes.Pause].
	Paused bool
	// Version counts changes; [Classes.Put] sets it.
	Version int64
}

// HTTP is what http:call jobs of a class may reach.
type HTTP struct {
	// AllowPrivate lets them call loopback, private and link-local addresses.
	AllowPrivate bool `json:"allow_private" yaml:"allow_private"`
	// Hosts, when not empty, are the only hosts they may call: host names or host:port.
	Hosts []string `json:"hosts,omitempty" yaml:"hosts,omitempty"`
}

// NewClass returns a class with the defaults of all optional settings.
func NewClass(name string, capacity int, rate Rate) Class {
	return Class{
		Name: name, Capacity: capacity, Rate: rate,
		CatchUp: 5 * time.Millisecond, Timeout: 30 * time.Second, MaxPayload: 256 << 10,
	}
}

// MaxPayload is the largest payload that any class can allow, in bytes.
const MaxPayload = 1 << 20

var className = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

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
	check(className.MatchString(c.Name), "name %q is not [a-z0-9][a-z0-9_-]{0,63}", clip(c.Name))
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
	for _, host := range c.HTTP.Hosts {
		check(host != "" && !strings.ContainsAny(host, "/ @\r\n\t"), "http.hosts: %q is not a host or host:port", clip(host))
	}
	if bad != nil {
		return fmt.Errorf("%w: class %q: %s", ErrInvalid, clip(c.Name), strings.Join(bad, "; "))
	}
	return nil
}

// Equal tells whether two classes have the same settings, whatever their versions.
func (c Class) Equal(d Class) bool {
	hosts := slices.Equal(c.HTTP.Hosts, d.HTTP.Hosts)
	return hosts && slices.Equal(c.settings(), d.settings())
}

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
	Paused     bool   `json:"paused"`
	Version    int64  `json:"version"`
}

// MarshalJSON writes the class in the words of the class file.
func (c Class) MarshalJSON() ([]byte, error) {
	j := classJSON{
		Name: c.Name, Capacity: c.Capacity, Rate: c.Rate, CatchUp: duration(c.CatchUp), MaxJobs: c.MaxJobs,
		Timeout: duration(c.Timeout), Dedup: duration(c.Dedup), MaxPayload: c.MaxPayload, HTTP: c.HTTP,
		Paused: c.Paused, Version: c.Version,
	}
	if c.MaxWait > 0 {
		j.MaxWait = duration(c.MaxWait)
	}
	return json.Marshal(j)
}

// settings are the fields of the class's hash in Redis: durations in microseconds.
func (c Class) settings() []string {
	http := ""
	if c.HTTP.AllowPrivate || len(c.HTTP.Hosts) > 0 {
		b, _ := json.Marshal(c.HTTP) //nolint:errchkjson // a bool and strings always marshal
		http = string(b)
	}
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
		"http", http,
		// For people who look; and a value of more than 64 bytes makes Redis keep the fields in a table, which it
		// reads faster than a list of them.
		"note", "written by Classes.Put, the same in all shards; durations are microseconds",
	}
}

// readClass is the inverse of settings.
func readClass(name string, h map[string]string) (Class, error) {
	var r fields = h
	c := Class{
		Name:       name,
		Capacity:   int(r.int("capacity")),
		Rate:       Rate{Limit: r.int("limit"), Period: r.micros("period")},
		CatchUp:    r.micros("catch_up"),
		MaxWait:    r.micros("max_wait"),
		MaxJobs:    int(r.int("max_jobs")),
		Timeout:    r.micros("timeout"),
		Dedup:      r.micros("dedup"),
		MaxPayload: Size(r.int("max_payload")),
		Paused:     h["paused"] != "",
		Version:    r.int("version"),
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
