package queue

import (
	"strconv"
	"time"
)

// fields reads a hash. A missing field is zero.
type fields map[string]string

func (f fields) int(name string) int64 { return parseInt(f[name]) }

func (f fields) micros(name string) time.Duration {
	return time.Duration(f.int(name)) * time.Microsecond
}

func (f fields) time(name string) time.Time {
	if f[name] == "" {
		return time.Time{}
	}
	return time.UnixMicro(f.int(name)).UTC()
}

func parseInt(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
