// Command fettle keeps the nodes and machines of Kubernetes clusters healthy.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fettle-io/fettle/internal/cli"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// version is set by the build.
var version = "development"

func main() {
	root := &cobra.Command{
		Use:           "fettle",
		Short:         "Fettle judges the nodes and machines of a cluster by your rules and has the unhealthy ones repaired",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(controllerCommand(), versionCommand())
	addUserCommands(root, os.Args[0], os.Args[1:])
	if err := root.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		if text := sanitize.Report(err); text != "" {
			fmt.Fprintf(os.Stderr, "%s: %s\n", root.DisplayName(), text)
		}
		os.Exit(cli.ExitStatus(err))
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), "fettle", version)
		},
	}
}
