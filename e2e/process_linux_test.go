package e2e

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent has the kernel end a program when the test binary dies without running its clean-ups.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// socketOwner tells which of pids has the end at local of a TCP connection to remote, 0 for none of them.
func socketOwner(local, remote net.Addr, pids []int) int {
	inode := socketInode(procAddr(local), procAddr(remote))
	if inode == "" {
		return 0
	}
	for _, pid := range pids {
		dir := fmt.Sprintf("/proc/%d/fd/", pid)
		fds, _ := os.ReadDir(dir) // nothing to find in a process that has ended
		for _, fd := range fds {
			if target, err := os.Readlink(dir + fd.Name()); err == nil && target == "socket:["+inode+"]" {
				return pid
			}
		}
	}
	return 0
}

// socketInode looks a connection up in the table of the kernel.
func socketInode(local, remote string) string {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return ""
	}
	// sl: local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
	_, rest, found := strings.Cut(string(table), ": "+local+" "+remote+" ")
	if f := strings.Fields(rest[:min(len(rest), 200)]); found && len(f) > 6 {
		return f[6]
	}
	return ""
}

// procAddr writes a loopback address as /proc/net/tcp does, in the byte order of the machine: all of ours are 127.0.0.1.
func procAddr(addr net.Addr) string {
	_, port, _ := net.SplitHostPort(addr.String())
	n, _ := strconv.Atoi(port)
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32([]byte{127, 0, 0, 1}), n)
}
