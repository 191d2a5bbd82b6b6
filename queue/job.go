package queue

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// DefaultType is the type of a job that names none.
const DefaultType = "http:call"

// Job is one piece of work on its way into a bucket.
type Job struct {
	// Class and Key name the bucket.
	Class string `json:"class"`
	Key   string `json:"key"`
	// ID makes the job's identity, together with Class and Key. Empty means a random one, made before the first send.
	ID string `json:"id,omitempty"`
	// Type names the handler. Defaults to [DefaultType].
	Type string `json:"type,omitempty"`
	// Payload is any JSON value, handed to the handler compacted.
	Payload json.RawMessage `json:"payload"`
	// MaxWait is the longest the job may wait in line; the class's own max_wait holds as well. 0 is no limit.
	MaxWait time.Duration `json:"-"`
	// NotBefore is when the job joins the line; until then it only holds a place. A zero or past time is now.
	NotBefore time.Time `json:"-"`
	// Ack is what the receipt must vouch for; empty means what the class asks for.
	Ack Ack `json:"-"`
	// Trace is handed to each attempt as it is, such as the traceparent of who submits; at most 256 bytes. It is not part of
	// what the job is: the same job with another trace is a duplicate.
	Trace string `json:"-"`
}

// name of the job's bucket.
func (j *Job) bucket() string { return j.Class + "/" + j.Key }

// prepare fills in what the caller left out and checks the rest, so that a job sent twice is the same twice.
func (j *Job) prepare() error {
	if j.ID == "" {
		j.ID = rand.Text()
	}
	if j.Type == "" {
		j.Type = DefaultType
	}
	if err := j.check(); err != nil {
		return err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, j.Payload); err != nil {
		return fmt.Errorf("%w: payload is not one JSON value: %w", ErrInvalid, err)
	}
	j.Payload = compact.Bytes()
	return nil
}

func (j *Job) check() error {
	if !isClassName(j.Class) {
		return fmt.Errorf("%w: class %q is not [a-z0-9][a-z0-9_-]{0,63}", ErrInvalid, clip(j.Class))
	}
	if err := checkText("key", j.Key, 256); err != nil {
		return err
	}
	if err := checkText("id", j.ID, 128); err != nil {
		return err
	}
	if err := checkText("type", j.Type, 128); err != nil {
		return err
	}
	if strings.TrimSpace(j.Type) == "" {
		return fmt.Errorf("%w: type is blank", ErrInvalid)
	}
	if len(j.Payload) == 0 {
		return fmt.Errorf("%w: payload is missing; any JSON value will do, null too", ErrInvalid)
	}
	if len(j.Payload) > MaxPayload {
		return fmt.Errorf("%w: payload of %d bytes is above the %d that any class can allow", ErrTooLarge, len(j.Payload), MaxPayload)
	}
	if j.Ack != "" {
		if _, err := ParseAck(string(j.Ack)); err != nil {
			return err
		}
	}
	if j.Trace != "" {
		if err := checkText("trace", j.Trace, 256); err != nil {
			return err
		}
	}
	if j.MaxWait < 0 {
		return fmt.Errorf("%w: max_wait %v is negative", ErrInvalid, j.MaxWait)
	}
	if y := j.NotBefore.Year(); !j.NotBefore.IsZero() && (y < 1970 || y > 2200) {
		return fmt.Errorf("%w: not_before %s is not between the years 1970 and 2200", ErrInvalid, j.NotBefore.Format(time.RFC3339))
	}
	return nil
}

// CheckKey reports why a key cannot name a bucket, or nil. The error wraps [ErrInvalid].
func CheckKey(key string) error { return checkText("key", key, 256) }

func checkText(field, s string, longest int) error {
	switch {
	case s == "":
		return fmt.Errorf("%w: %s is empty", ErrInvalid, field)
	case len(s) > longest:
		return fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", ErrInvalid, field, len(s), longest)
	case printable(s):
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: %s %q is not valid UTF-8", ErrInvalid, field, clip(s))
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%w: %s %q has control characters", ErrInvalid, field, clip(s))
	}
	return nil
}

// printable tells that a text is ASCII without control characters, as most are.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// clip shortens what somebody sent for an error text.
func clip(s string) string {
	if len(s) <= 64 {
		return s
	}
	return s[:64] + "…"
}

// shardOf places a bucket. It must never change for a number of shards: jobs are found by it.
func shardOf(bucket string, shards int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(bucket))
	x := h.Sum64() // its bits depend too little on the last letters: key-1 to key-9 would share a shard
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return int((x ^ x>>33) % uint64(shards)) //nolint:gosec // below shards, which fits
}

// refOf makes a job's ref: its shard and 128 bits of a hash of its identity, so that a ref is short, safe in any URL and
// the same for the same identity.
func refOf(shard int, j *Job) string {
	sum := sha256.Sum256([]byte(j.Class + "\x00" + j.Key + "\x00" + j.ID))
	return strconv.Itoa(shard) + "-" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// shardOfRef reads the shard off a ref.
func shardOfRef(ref string, shards int) (int, error) {
	number, hash, ok := strings.Cut(ref, "-")
	shard, err := strconv.Atoi(number)
	if !ok || err != nil || shard < 0 || shard >= shards || len(hash) != 22 || strings.ContainsAny(hash, ": \n") {
		return 0, fmt.Errorf("%w: %q is not a ref of this installation; take it from a receipt", ErrInvalid, clip(ref))
	}
	return shard, nil
}

const digestLen = 16 // characters

// digest tells two contents under one identity apart. It covers the identity too, so that two that should ever share a ref
// are not taken for one job.
func (j *Job) digest() string {
	h := sha256.New()
	_, _ = h.Write([]byte(j.Class + "\x00" + j.Key + "\x00" + j.ID + "\x00" + j.Type + "\x00"))
	_, _ = h.Write(j.Payload)
	return base64.RawStdEncoding.EncodeToString(h.Sum(nil)[:digestLen*3/4])
}
