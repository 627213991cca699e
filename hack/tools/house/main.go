package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// errBroken is returned after the report, which says the rest.
var errBroken = errors.New("rules of the house are broken")

// run checks the repository at the root that the arguments name, and writes a report.
func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("check-house", flag.ContinueOnError)
	root := flags.String("root", ".", "the root of the repository")
	lower := flags.Bool("lower", false, "lower the counts of "+baselineName+" to those of the repository; it raises none")
	list := flags.String("list", "", "print where a phrase of "+baselineName+" is used")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading the flags: %w", err)
	}
	files, err := readTree(*root)
	if err != nil {
		return err
	}
	if *list != "" {
		return listPhrase(files, *list, out)
	}
	found, err := uses(files)
	if err != nil {
		return err
	}
	limits, err := readBaseline(files)
	if err != nil {
		return err
	}
	if *lower {
		return lowerBaseline(*root, limits, found)
	}
	broken := report(out, "a citation names a document, or a section of it, that does not exist", citations(files))
	broken = report(out, "a citation names a document that is not in the repository; see docs/reference/README.md", outside(files)) || broken
	broken = report(out, "a page is wrapped at 100 columns; tables, code and headings may be wider", wide(files)) || broken
	broken = report(out, "a phrase is used more often than "+baselineName+" allows: name the actor, or write a plainer sentence",
		above(limits, found)) || broken
	table, err := readRooms(files)
	if err != nil {
		return err
	}
	upward, err := table.check(files)
	if err != nil {
		return err
	}
	broken = report(out, "a file of the core uses its own room and those below; see "+roomsName, upward) || broken
	for _, line := range below(limits, found) {
		fmt.Fprintf(out, "note: %s\n", line)
	}
	if broken {
		return errBroken
	}
	return nil
}

// report prints lines below the rule that they break, and reports whether there are any.
func report(out io.Writer, rule string, lines []string) bool {
	if len(lines) == 0 {
		return false
	}
	fmt.Fprintf(out, "error: %s\n", rule)
	for _, line := range lines {
		fmt.Fprintf(out, "    %s\n", line)
	}
	return true
}
