// Command fettle-demo shows Fettle's main job on a real control plane. With machines: a node that dies is replaced, and a
// zone that dies is left alone until it returns. On nodes alone (--dialect nhc): a node that fails is handed to one
// remediator and then to another, and too many at once are left alone. With workload clusters (--dialect capi): a worker is
// replaced by the real controllers of Cluster API, and a cluster that does not answer is left alone. On bare metal
// (--dialect metal): hosts that hang are powered off and on. Without BMCs (--dialect selffence): nodes reset themselves. It needs the binaries that make build puts beside it, and the
// repository's config/.
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
const limit = 10 * time.Minute

func main() {
	keep := flag.Bool("keep", false, "leave everything running afterwards, until interrupted")
	dialect := flag.String("dialect", "openshift", "what is shown: openshift, nhc or capi, which are APIs of health checks, or metal or selffence")
	flag.Parse()
	if err := run(*dialect, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "\nfettle-demo:", err)
		os.Exit(1)
	}
}

// scenario is a demo, with its own cluster, targets and health check.
type scenario interface {
	// cluster returns what to start and to install.
	cluster() cluster
	// play plays the scenario on a running stage. It fails when a step does not have its effect.
	play(ctx context.Context, s *demo) error
	// around returns a text about what users may look at and break afterwards.
	around(s *demo) string
}

func run(dialect string, keep bool) error {
	told, known := map[string]scenario{
		"openshift": machineScenario{}, "nhc": nodeScenario{}, "capi": clusterScenario{}, "metal": metalScenario{},
		"selffence": fenceScenario{},
	}[dialect]
	if !known {
		return fmt.Errorf("--dialect %q is not known; there are openshift, nhc, capi, metal and selffence", dialect)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	raised, err := stage.New("fettle-demo-")
	if err != nil {
		return err
	}
	shown := &demo{Stage: raised, workloads: map[string]*stage.Process{}}
	defer shown.strike(keep)

	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err = shown.raise(limited, told.cluster()); err == nil {
		err = told.play(limited, shown)
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return errors.New("interrupted")
	case err != nil:
		return fmt.Errorf("%w\nthe logs are in %s", err, shown.Keep())
	}
	if keep {
		shown.sayHowToLookAround(told.around(shown))
		<-ctx.Done()
	}
	return nil
}
