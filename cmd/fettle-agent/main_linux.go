// Command fettle-agent has its node fence itself. It runs on each node, and locks what it uses in memory, so it has none of the other parts of
// Fettle. It has no cache and no scheme, and knows few types of Kubernetes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/fettle-io/fettle/internal/sanitize"
)

// version is set by the build.
var version = "development"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once, and leaves the watchdog armed
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fettle-agent:", sanitize.Report(err))
		os.Exit(1)
	}
}

// run does what the arguments say. It writes the output that the user requests to a writer.
func run(ctx context.Context, args []string, to io.Writer) error {
	o, err := parse(args, to)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case o.version:
		_, err := fmt.Fprintln(to, "fettle-agent", version)
		return err //nolint:wrapcheck // it says what failed
	}
	return o.run(ctx)
}
