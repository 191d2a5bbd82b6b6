package redistest

import "syscall"

// dieWithParent has the kernel end the server when the test binary dies
// without running its cleanups (a panic, a timeout, kill -9).
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
