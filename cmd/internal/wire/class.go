package wire

import (
	"time"

	"github.com/spout-queue/spout/queue"
)

// Settings are those of a class, with the names and in the text forms of the class file.
type Settings struct {
	Capacity    int            `json:"capacity" doc:"Jobs that may wait, per key." minimum:"1" maximum:"1000000" example:"500"`
	Rate        queue.Rate     `json:"rate" doc:"Departures per key: limit/period, at most 10,000 a second." example:"30/60s"`
	CatchUp     Duration       `json:"catch_up" required:"false" doc:"How late a departure may be and still keep its slot; 0 to 1s." example:"5ms"`
	MaxWait     Duration       `json:"max_wait,omitempty" doc:"A job that would wait longer is rejected, one that has is expired; none by default." example:"10m"`
	MaxJobs     int            `json:"max_jobs" required:"false" doc:"Waiting jobs over all keys of the class; 0 is no bound." minimum:"0"`
	Timeout     Duration       `json:"timeout" required:"false" doc:"Per attempt." example:"30s"`
	Dedup       Duration       `json:"dedup" required:"false" doc:"How long, from admission on, an id is remembered after its job; 0: while the job exists." example:"24h"`
	MaxPayload  queue.Size     `json:"max_payload" required:"false" doc:"Largest payload: a number of bytes, KiB or MiB." example:"256KiB"`
	HTTP        HTTP           `json:"http" required:"false" doc:"For http:call jobs."`
	MaxInFlight int            `json:"max_in_flight" required:"false" doc:"Most jobs of one key that may be out at once; 0 is no bound." minimum:"0"`
	Overflow    queue.Overflow `json:"overflow" required:"false" enum:"reject,drop-oldest" doc:"What a full bucket does."`
	Retention   Duration       `json:"retention" required:"false" doc:"How long a finished job and its result can be read." example:"1h"`
	Retry       Retry          `json:"retry" required:"false"`
	MaxCrashes  int            `json:"max_crashes" required:"false" doc:"Workers that a job may take down with it before it is dead." minimum:"1" maximum:"100"`
	Dead        DeadLimits     `json:"dead" required:"false" doc:"Bounds of the dead jobs that are kept."`
	Ack         queue.Ack      `json:"ack" required:"false" doc:"What a receipt vouches for: memory, fsynced or replicated(n)." example:"memory"`
	Pace        queue.Pace     `json:"pace" required:"false" enum:"normal,strict"`
	Adapt       *Adapt         `json:"adapt,omitempty" doc:"Lets the rate of each bucket follow what the called service bears."`
}

// Retry says what becomes of a failed attempt.
type Retry struct {
	MaxAttempts int         `json:"max_attempts" required:"false" minimum:"1" maximum:"100" doc:"Failed attempts after which a job is dead."`
	Backoff     Duration    `json:"backoff" required:"false" example:"1s"`
	MaxBackoff  Duration    `json:"max_backoff" required:"false" example:"5m"`
	Order       queue.Order `json:"order" required:"false" enum:"park,hold,tail"`
}

// DeadLimits bound the dead jobs of a class.
type DeadLimits struct {
	Max  int      `json:"max" required:"false" minimum:"0" maximum:"10000000" doc:"The most that are kept, the newest."`
	Keep Duration `json:"keep" required:"false" doc:"How long each is kept." example:"720h"`
}

// HTTP is what http:call jobs of a class may reach, and how the services they call are heard.
type HTTP struct {
	AllowPrivate bool            `json:"allow_private" required:"false" doc:"Loopback, private and link-local targets are refused unless true."`
	Hosts        []string        `json:"hosts,omitempty" nullable:"false" doc:"When not empty, only these."`
	Schemes      []string        `json:"schemes,omitempty" nullable:"false" doc:"When not empty, only these."`
	Ports        []int           `json:"ports,omitempty" nullable:"false" doc:"When not empty, only these."`
	Redirects    int             `json:"redirects,omitempty" minimum:"0" maximum:"10" doc:"Redirects that a call follows."`
	Secrets      []string        `json:"secrets,omitempty" nullable:"false" doc:"Names of the secrets that headers may hold."`
	Hold         queue.HoldScope `json:"hold,omitempty" enum:"bucket,class" doc:"What a service closes that asks to be left alone."`
	MaxHold      Duration        `json:"max_hold,omitempty" doc:"The longest that it can close it at a time." example:"1h"`
	Anonymous    bool            `json:"anonymous,omitempty" doc:"Leaves out the headers Idempotency-Key and Spout-Attempt."`
}

// Adapt bounds the rate of a bucket that follows what its service bears.
type Adapt struct {
	Min queue.Rate `json:"min" example:"5/60s"`
	Max queue.Rate `json:"max,omitzero" required:"false" example:"25/60s"`
}

// Class is a class: its settings, what closes it, and its version.
type Class struct {
	Name string `json:"name" doc:"Its name." example:"github-api"`
	Settings
	Hold       *Time  `json:"hold,omitempty" format:"date-time" doc:"Until when the class is closed."`
	HoldReason string `json:"hold_reason,omitempty"`
	Paused     bool   `json:"paused"`
	Draining   bool   `json:"draining"`
	Version    int64  `json:"version" doc:"Counts changes." minimum:"1"`
}

// ClassState is a class and how many jobs it has.
type ClassState struct {
	Class
	Waiting int64 `json:"waiting" doc:"Jobs in line, delayed and parked."`
	Out     int64 `json:"out" doc:"Jobs that are out."`
}

// ClassNow is a class after something was done to it.
type ClassNow struct {
	ClassState
	Unchanged bool `json:"unchanged,omitempty" doc:"It was so already."`
}

const usualMaxHold = time.Hour // of a class that has no http.max_hold

// FromSettings writes the settings of a class down.
func FromSettings(c queue.Class) Settings {
	w := Settings{
		Capacity: c.Capacity, Rate: c.Rate, CatchUp: Duration(c.CatchUp), MaxWait: Duration(c.MaxWait), MaxJobs: c.MaxJobs,
		Timeout: Duration(c.Timeout), Dedup: Duration(c.Dedup), MaxPayload: c.MaxPayload, HTTP: fromHTTP(c.HTTP),
		MaxInFlight: c.MaxInFlight, Overflow: c.Overflow, Retention: Duration(c.Retention),
		Retry: Retry{
			MaxAttempts: c.Retry.MaxAttempts, Backoff: Duration(c.Retry.Backoff), MaxBackoff: Duration(c.Retry.MaxBackoff), Order: c.Retry.Order,
		},
		MaxCrashes: c.MaxCrashes, Dead: DeadLimits{Max: c.Dead.Max, Keep: Duration(c.Dead.Keep)}, Ack: c.Ack, Pace: c.Pace,
	}
	if c.Adapt != (queue.Adapt{}) {
		w.Adapt = new(Adapt(c.Adapt))
	}
	return w
}

// fromHTTP leaves out what is usual.
func fromHTTP(h queue.HTTP) HTTP {
	w := HTTP{
		AllowPrivate: h.AllowPrivate, Hosts: h.Hosts, Schemes: h.Schemes, Ports: h.Ports, Redirects: h.Redirects,
		Secrets: h.Secrets, Hold: h.Hold, MaxHold: Duration(h.MaxHold), Anonymous: h.Anonymous,
	}
	if w.Hold == queue.HoldBucket {
		w.Hold = ""
	}
	if h.MaxHold == usualMaxHold {
		w.MaxHold = 0
	}
	return w
}

// FromClass writes a class down.
func FromClass(c queue.Class) Class {
	return Class{
		Name: c.Name, Settings: FromSettings(c), Hold: timeOf(c.Hold), HoldReason: c.HoldReason, Paused: c.Paused,
		Draining: c.Draining, Version: c.Version,
	}
}

// ToQueue is the inverse of FromClass.
func (w Class) ToQueue() queue.Class {
	c := w.Settings.ToQueue(w.Name)
	c.Hold, c.HoldReason, c.Paused, c.Draining, c.Version = goTime(w.Hold), w.HoldReason, w.Paused, w.Draining, w.Version
	return c
}

// ToQueue is the inverse of FromSettings. It takes all settings as they are: those that were never there are zero.
func (w Settings) ToQueue(name string) queue.Class {
	c := queue.NewClass(name, w.Capacity, w.Rate)
	c.CatchUp, c.MaxWait, c.MaxJobs, c.Timeout = time.Duration(w.CatchUp), time.Duration(w.MaxWait), w.MaxJobs, time.Duration(w.Timeout)
	c.Dedup, c.MaxPayload, c.MaxInFlight, c.Overflow = time.Duration(w.Dedup), w.MaxPayload, w.MaxInFlight, w.Overflow
	c.Retention, c.MaxCrashes, c.Ack, c.Pace = time.Duration(w.Retention), w.MaxCrashes, w.Ack, w.Pace
	c.Retry = queue.Retry{
		MaxAttempts: w.Retry.MaxAttempts, Backoff: time.Duration(w.Retry.Backoff), MaxBackoff: time.Duration(w.Retry.MaxBackoff), Order: w.Retry.Order,
	}
	c.Dead = queue.DeadLimits{Max: w.Dead.Max, Keep: time.Duration(w.Dead.Keep)}
	if w.Adapt != nil {
		c.Adapt = queue.Adapt(*w.Adapt)
	}
	h := w.HTTP
	hold, maxHold := c.HTTP.Hold, c.HTTP.MaxHold
	c.HTTP = queue.HTTP{
		AllowPrivate: h.AllowPrivate, Hosts: h.Hosts, Schemes: h.Schemes, Ports: h.Ports, Redirects: h.Redirects,
		Secrets: h.Secrets, Hold: h.Hold, MaxHold: time.Duration(h.MaxHold), Anonymous: h.Anonymous,
	}
	if h.Hold == "" {
		c.HTTP.Hold = hold
	}
	if h.MaxHold == 0 {
		c.HTTP.MaxHold = maxHold
	}
	return c
}

// ClassPut is a class as it is stored: its settings, and what reading it told besides them.
type ClassPut struct {
	Settings
	Name       string `json:"name,omitempty" doc:"Must be that of the path."`
	Version    int64  `json:"version,omitempty" minimum:"1" doc:"Stores nothing unless the class has it."`
	Hold       *Time  `json:"hold,omitempty" format:"date-time" doc:"Is not looked at: see hold and unhold."`
	HoldReason string `json:"hold_reason,omitempty" doc:"Is not looked at."`
	Paused     bool   `json:"paused,omitempty" doc:"Is not looked at: see pause and resume."`
	Draining   bool   `json:"draining,omitempty" doc:"Is not looked at: see drain and resume."`
	Waiting    int64  `json:"waiting,omitempty" doc:"Is not looked at."`
	Out        int64  `json:"out,omitempty" doc:"Is not looked at."`
}

// SettingChange is one setting that differs between two versions of a class.
type SettingChange struct {
	Field string `json:"field" example:"retry.order"`
	Old   string `json:"old" example:"park"`
	New   string `json:"new" example:"hold"`
}

// Plan is what storing a class changes, or has changed.
type Plan struct {
	Class   string          `json:"class" example:"github-api"`
	Change  string          `json:"change" enum:"new,changed,unchanged"`
	Fields  []SettingChange `json:"fields,omitempty" nullable:"false" doc:"The settings that differ."`
	Applied bool            `json:"applied" doc:"False when it was only asked what would change, and when nothing does."`
	Version int64           `json:"version,omitempty" doc:"Of the class as it is now."`
}

// Removal is the answer to the removal of a class.
type Removal struct {
	Class   string `json:"class" example:"github-api"`
	Removed bool   `json:"removed"`
	Waiting int    `json:"purged_waiting" doc:"Waiting jobs that were dropped first."`
	Dead    int    `json:"purged_dead" doc:"Dead jobs that were dropped first."`
}
