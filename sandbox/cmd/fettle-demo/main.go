// Command fettle-demo shows Fettle's main job on a real control plane: a node that dies is replaced, and a zone that dies
// is left alone until it returns. It needs the binaries that make build puts beside it, and the repository's config/.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fettle-io/fettle/sandbox/stage"
)

// limit ends a demo that hangs.
const limit = 5 * time.Minute

func main() {
	keep := flag.Bool("keep", false, "leave everything running afterwards, until interrupted")
	flag.Parse()
	if err := run(*keep); err != nil {
		fmt.Fprintln(os.Stderr, "\nfettle-demo:", err)
		os.Exit(1)
	}
}

func run(keep bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	raised, err := stage.New("fettle-demo-")
	if err != nil {
		return err
	}
	stage := &demo{raised}
	defer stage.strike(keep)

	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = play(limited, stage)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return errors.New("interrupted")
	case err != nil:
		return fmt.Errorf("%w\nthe logs are in %s", err, stage.Keep())
	}
	if keep {
		stage.sayHowToLookAround()
		<-ctx.Done()
	}
	return nil
}
