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

// calledAs returns the command that a user types: kubectl fettle if the binary has the name of a
// plugin.
func calledAs(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".exe")
	if name == "kubectl-fettle" || name == completer {
		return "kubectl fettle"
	}
	return "fettle"
}

// addUserCommands adds the commands for users.
func addUserCommands(root *cobra.Command, path string, args []string) {
	name := calledAs(path)
	var known []cli.Dialect
	for _, d := range dialects() {
		known = append(known, d.commands)
	}
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	root.AddCommand(cli.Commands(cli.Options{
		Name: name, UserAgent: "fettle/" + version, Dialects: known, Now: time.Now,
	})...)
	if strings.TrimSuffix(filepath.Base(path), ".exe") == completer {
		root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, args...))
	}
}
