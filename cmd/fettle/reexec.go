package main

import (
	"fmt"
	"os"
	"syscall"
)

// reexec replaces this process by a new one with the same arguments, which starts without any
// state. reexec returns only if that fails, and then the kubelet restarts the container.
func reexec(why error) error {
	program, err := os.Executable()
	if err == nil {
		err = syscall.Exec(program, os.Args, os.Environ()) //nolint:gosec // it is this program with its own arguments
	}
	return fmt.Errorf("restarting, since %w: %w", why, err)
}
