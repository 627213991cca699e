// Podruns reads a log of what runs on simulated hosts, which fettle-sandbox --metal-log writes. It prints when each pod of a
// StatefulSet ran, and where. It ends with an error if a pod ran twice at a time, or if no pod ran.
//
//	podruns FILE
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/fettle-io/fettle/test/runs"
)

var errNoRuns = errors.New("no pod of a StatefulSet ran")

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: podruns FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "podruns:", err)
		os.Exit(1)
	}
}

func run(name string, out io.Writer) error {
	log, err := os.Open(name) //nolint:gosec // the user names the file
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer func() { _ = log.Close() }()
	all, err := runs.Read(log)
	if err != nil {
		return err
	}
	if err := write(out, all); err != nil {
		return err
	}
	if len(all) == 0 {
		return errNoRuns
	}
	var problems []error
	for _, problem := range runs.Overlaps(all) {
		problems = append(problems, errors.New(problem)) //nolint:err113 // the text is the result
	}
	return errors.Join(problems...)
}

const clock = "15:04:05.0"

func write(out io.Writer, all []runs.Run) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "POD\tNODE\tBOOT\tFROM\tTO") // Flush returns the error
	for _, r := range all {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", r.Identity, r.Node, r.Boot[:min(len(r.Boot), 8)], r.First.Format(clock), r.Last.Format(clock))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the runs: %w", err)
	}
	return nil
}
