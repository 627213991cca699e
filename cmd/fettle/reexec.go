package main

import (
	"fmt"
	"os"
	"syscall"
)

// reexec puts a new process in the place of this one, with the same arguments. Nothing of what this one remembers is
// left, as after any restart. It returns only when that fails, and then the kubelet restarts the process.
func reexec(why error) error {
	program, err := os.Executable()
	if err == nil {
		err = syscall.Exec(program, os.Args, os.Environ()) //nolint:gosec // it is this very program, as it was called
	}
	return fmt.Errorf("beginning anew, since %w: %w", why, err)
}
