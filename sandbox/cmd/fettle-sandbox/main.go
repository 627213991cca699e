// Command fettle-sandbox runs a real Kubernetes control plane in one process, with a simulated fleet of machines if asked
// to. It is for demos, tests and benchmarks; see the README of the sandbox module.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once, in case stopping hangs.
	context.AfterFunc(ctx, stop)
	terminal, err := newTerminal()
	if err != nil {
		fmt.Fprintf(os.Stderr, "fettle-sandbox: %v\n", err)
		os.Exit(1)
	}
	if err := newRootCommand(terminal).ExecuteContext(ctx); err != nil {
		fmt.Fprintf(terminal.err, "fettle-sandbox: %v\n", err)
		os.Exit(1)
	}
}
