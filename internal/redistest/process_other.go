//go:build !linux

package redistest

import "syscall"

// dieWithParent is Linux's: elsewhere a test binary that dies without running
// its cleanups leaves its servers behind.
func dieWithParent() *syscall.SysProcAttr { return nil }
