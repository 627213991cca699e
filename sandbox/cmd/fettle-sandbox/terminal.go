package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"syscall"

	"k8s.io/klog/v2"
)

// terminal is the output that the user of the program sees.
type terminal struct {
	out *os.File
	err *os.File
}

// newTerminal duplicates standard output and standard error, so that the originals can be given to the log.
func newTerminal() (terminal, error) {
	out, err := duplicate(os.Stdout)
	if err != nil {
		return terminal{}, fmt.Errorf("duplicating standard output: %w", err)
	}
	errs, err := duplicate(os.Stderr)
	if err != nil {
		return terminal{}, fmt.Errorf("duplicating standard error: %w", err)
	}
	return terminal{out: out, err: errs}, nil
}

// redirectLogs sends the output of all parts of the process to the file. Kubernetes and its libraries write to the
// standard files in many ways, some of them opened before main, so the descriptors themselves are exchanged.
func redirectLogs(file string, t terminal) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	for _, standard := range []int{syscall.Stdout, syscall.Stderr} {
		if err := syscall.Dup3(int(f.Fd()), standard, 0); err != nil {
			return nil, fmt.Errorf("sending output to the log: %w", err)
		}
	}
	// A crash must be visible.
	if err := debug.SetCrashOutput(t.err, debug.CrashOptions{}); err != nil {
		return nil, fmt.Errorf("sending crash reports to the terminal: %w", err)
	}
	klog.OsExit = func(code int) {
		fmt.Fprintf(t.err, "fettle-sandbox: a Kubernetes component ended the process; its last words are in %s\n", file)
		os.Exit(max(code, 1)) //nolint:revive // klog is about to end the process; this only adds the line above
	}
	return f, nil
}

func duplicate(f *os.File) (*os.File, error) {
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), f.Name()), nil
}
