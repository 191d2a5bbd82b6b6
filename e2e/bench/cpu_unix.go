//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpuTime is the processor time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail with these arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
