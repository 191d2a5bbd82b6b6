//go:build !unix

package handlers

import "os/exec"

// group does nothing where there are no process groups: the program alone is killed.
func group(*exec.Cmd) {}

func killGroup(*exec.Cmd) {}
