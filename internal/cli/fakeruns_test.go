package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// testOptions are those of commands at a time.
func testOptions(now time.Time) Options {
	return Options{Name: "fettle", UserAgent: "test", Dialects: []Dialect{&OpenShift{}, NHC{}, ClusterAPI{}}, Now: func() time.Time { return now }}
}

// runFettle runs a command of fettle, and returns its line, what it prints, and its failure.
func runFettle(t *testing.T, now time.Time, args ...string) string {
	t.Helper()
	var printed bytes.Buffer
	root := &cobra.Command{Use: "fettle", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands(testOptions(now))...)
	root.SetArgs(args)
	root.SetOut(&printed)
	root.SetErr(&printed)
	if err := root.ExecuteContext(t.Context()); err != nil {
		printed.WriteString("error: " + err.Error() + "\n")
	}
	return "$ fettle " + strings.Join(args, " ") + "\n" + printed.String()
}

// run is a command that is run in a fleet of its own.
type run struct {
	sentence, args string
	change         func(*fleet)
}

// goldenRuns compares the transcripts of commands with a file.
func goldenRuns(t *testing.T, file string, runs []run) {
	t.Helper()
	text := ""
	for _, r := range runs {
		f := startFleet(t)
		r.change(f)
		text += "# " + r.sentence + "\n" + strings.TrimRight(f.transcript(strings.Fields(r.args)...), "\n") + "\n\n"
	}
	golden(t, file, text)
}

// refusing has reads fail with a code.
func refusing(code int, paths ...string) func(*fleet) {
	return func(f *fleet) {
		for _, path := range paths {
			f.refuse("GET "+path, code)
		}
	}
}

// unserved has the API server not serve collections.
func unserved(paths ...string) func(*fleet) {
	return func(f *fleet) {
		for _, path := range paths {
			delete(f.objects, path)
		}
	}
}
