package main

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fettle-io/fettle/internal/cli"
)

// completer is the name by which kubectl calls a plugin to complete its arguments.
const completer = "kubectl_complete-fettle"

// calledAs is how a person calls this binary: as a plugin of kubectl if it bears such a name.
func calledAs(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".exe")
	if name == "kubectl-fettle" || name == completer {
		return "kubectl fettle"
	}
	return "fettle"
}

// addUserCommands adds what people ask Fettle with.
func addUserCommands(root *cobra.Command, path string, args []string) {
	name := calledAs(path)
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	root.AddCommand(cli.Commands(cli.Options{
		Name: name, UserAgent: "fettle/" + version, Dialects: []cli.Dialect{cli.OpenShift{}, cli.NHC{}, cli.ClusterAPI{}}, Now: time.Now,
	})...)
	if strings.TrimSuffix(filepath.Base(path), ".exe") == completer {
		root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, args...))
	}
}
