// Command fettle-bench puts a load on a sandbox and measures what Fettle costs and how fast it repairs, side by side with
// the floor: a process that only watches the same objects with the stock typed client. It needs the binaries that make
// build puts beside it, and the repository's config/. The page docs/performance.md has the measurements and their purpose.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	if err := command().ExecuteContext(ctx); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		fmt.Fprintln(os.Stderr, "\nfettle-bench:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has run
	}
}

func command() *cobra.Command {
	var p parameters
	var out string
	cmd := &cobra.Command{
		Use:   "fettle-bench",
		Short: "Measure what Fettle costs and how fast it repairs",
		Long: "Measure what Fettle costs and how fast it repairs, on a sandbox and beside a process that only watches the same objects.\n\n" +
			"It prints a table, and fails only when the run itself broke or Fettle did something wrong, never for being slow.",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.validate(); err != nil {
				return err
			}
			return bench(cmd.Context(), p, out, cmd.OutOrStdout())
		},
	}
	p.register(cmd.Flags())
	cmd.Flags().StringVarP(&out, "output", "o", "", "file that the results are written to as JSON")
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(floorCommand(), leasesCommand())
	return cmd
}

// bench plays all rounds and prints the results.
func bench(ctx context.Context, p parameters, out string, w io.Writer) error {
	r := report{Host: lookAtHost(), Parameters: p}
	if dialects()[p.Dialect].metal {
		if err := r.benchMetal(ctx); err != nil {
			return err
		}
		return r.finish(out, w)
	}
	for i := range p.Rounds {
		say("round %d of %d", i+1, p.Rounds)
		played, err := play(ctx, p)
		if err != nil {
			return err
		}
		r.Rounds = append(r.Rounds, played)
	}
	if p.Clusters > 0 {
		var err error
		if r.Clusters, err = benchClusters(ctx, p); err != nil {
			return err
		}
	}
	if p.Decide {
		say("timing decisions on 50,000 targets and 50 policies")
		var err error
		if r.Decide, err = benchDecide(ctx); err != nil {
			return err
		}
	}
	return r.finish(out, w)
}

// finish writes the results and prints them.
func (r *report) finish(out string, w io.Writer) error {
	if err := r.write(out); err != nil {
		return err
	}
	_, err := io.WriteString(w, r.table())
	return err
}
