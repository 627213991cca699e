package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// options are the flags of the command line.
type options struct {
	packages  string
	part      string
	budget    time.Duration
	procs     int
	list      bool
	again     bool
	match     *regexp.Regexp
	report    string
	survivors string
}

func main() {
	var o options
	flag.StringVar(&o.packages, "package", "", "the packages to break, separated by commas; all of the table if empty")
	flag.StringVar(&o.part, "part", "", "the part of the mutants to try: i/n, or COMMIT/n, which draws i")
	flag.DurationVar(&o.budget, "budget", 0, "how long to try mutants; without limit if 0")
	flag.IntVar(&o.procs, "procs", runtime.GOMAXPROCS(0), "how many tests run at a time")
	flag.BoolVar(&o.list, "list", false, "list the mutants and try none")
	flag.BoolVar(&o.again, "explained", false, "try only the mutants that are explained, to find stale explanations")
	flag.Func("match", "a regular expression: try only the mutants whose line in -list it matches", func(text string) (err error) {
		if o.match, err = regexp.Compile(text); err != nil {
			return fmt.Errorf("reading the expression: %w", err)
		}
		return nil
	})
	flag.StringVar(&o.report, "o", "", "a file that takes a line for each mutant")
	flag.StringVar(&o.survivors, "survivors", "hack/mutate/survivors.txt", "the survivors that are explained")
	flag.Parse()
	ok, err := o.run(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// session is one run over the packages of the table.
type session struct {
	options

	out       io.Writer
	report    io.Writer
	explained explained
	targets   []target
	packages  []*mutated
	part      part
	total     int
	until     time.Time // when the budget is used up; zero without one
}

// run tries the mutants, and reports whether all is as the table and the explained survivors say.
func (o options) run(ctx context.Context) (bool, error) {
	s := &session{options: o, out: os.Stdout, report: io.Discard}
	if o.budget > 0 {
		s.until = time.Now().Add(o.budget)
	}
	if o.report != "" {
		file, err := os.Create(o.report)
		if err != nil {
			return false, fmt.Errorf("creating the report: %w", err)
		}
		defer func() { _ = file.Close() }()
		s.report = file
	}
	if err := s.prepare(ctx); err != nil {
		return false, err
	}
	ok := s.explainsNoOther()
	if o.list {
		s.listMutants()
		return ok, nil
	}
	passed, err := s.tryAll(ctx)
	return ok && passed, err
}

// explainsNoOther reports whether each explained mutant of the packages exists. It prints the missing mutants.
func (s *session) explainsNoOther() bool {
	ok := true
	for i, t := range s.targets {
		for _, key := range s.explained.unknown(t.dir, s.packages[i].mutants) {
			fmt.Fprintf(os.Stderr, "error: %s explains a mutant that doesn't exist: %s\n", s.survivors, key)
			ok = false
		}
	}
	return ok
}

// prepare finds all mutants and what is known of them.
func (s *session) prepare(ctx context.Context) error {
	var err error
	if s.part, err = parsePart(s.options.part); err != nil {
		return err
	}
	if s.explained, err = readExplained(s.survivors); err != nil {
		return err
	}
	var dirs []string
	for _, t := range table() {
		if s.options.packages == "" || slices.Contains(strings.Split(s.options.packages, ","), t.dir) {
			s.targets, dirs = append(s.targets, t), append(dirs, t.dir)
		}
	}
	if len(dirs) == 0 {
		return fmt.Errorf("the table has no package %q", s.options.packages)
	}
	found, err := listExports(ctx, dirs)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		p, err := load(ctx, dir, found)
		if err != nil {
			return err
		}
		m, err := mutate(p, found)
		if err != nil {
			return err
		}
		s.packages, s.total = append(s.packages, m), s.total+len(m.mutants)
	}
	return nil
}

func (s *session) listMutants() {
	for i, t := range s.targets {
		for _, m := range s.packages[i].mutants {
			fmt.Fprintln(s.out, m.key())
		}
		fmt.Fprintf(s.out, "%s: %d mutants\n", t.dir, len(s.packages[i].mutants))
	}
}

// tryAll tries the mutants of the part, package by package.
func (s *session) tryAll(ctx context.Context) (bool, error) {
	ok, place := true, 0
	for i, t := range s.targets {
		mutants := s.packages[i].mutants
		var chosen []*mutant
		for _, m := range mutants {
			if s.part.has(place, s.total) && s.chooses(m) {
				chosen = append(chosen, m)
			}
			place++
		}
		if len(chosen) == 0 {
			continue
		}
		passed, err := s.try(ctx, t, s.packages[i], chosen)
		if err != nil {
			return false, err
		}
		ok = ok && passed
	}
	return ok, nil
}

// chooses reports whether a mutant is to be tried, whatever part it belongs to.
func (s *session) chooses(m *mutant) bool {
	_, meant := s.explained[m.key()]
	return (meant || !s.again) && (s.match == nil || s.match.MatchString(m.key()))
}

// try meets the mutants of one package with their tests.
func (s *session) try(ctx context.Context, t target, m *mutated, chosen []*mutant) (bool, error) {
	folder, err := os.MkdirTemp("", "fettle-mutate-")
	if err != nil {
		return false, fmt.Errorf("creating a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	start := time.Now()
	binaries, err := s.build(ctx, folder, t, m)
	if err != nil {
		return false, err
	}
	tally := &tally{target: t, explained: s.explained, report: s.report}
	var mu sync.Mutex
	each(s.procs, len(chosen), func(i int) {
		if !s.until.IsZero() && time.Now().After(s.until) {
			mu.Lock()
			defer mu.Unlock()
			tally.left++
			return
		}
		reached, caught := meetAll(ctx, binaries, chosen[i].id)
		mu.Lock()
		defer mu.Unlock()
		tally.add(chosen[i], reached, caught)
	})
	return tally.print(s.out, time.Since(start)), nil
}

// build compiles the tests that may notice the mutants of a package, and measures what they reach.
func (s *session) build(ctx context.Context, folder string, t target, m *mutated) ([]*binary, error) {
	changed, err := overlay(folder, m.files)
	if err != nil {
		return nil, err
	}
	var binaries []*binary
	for _, p := range append([]testPackage{{dir: t.dir, skip: t.skip}}, t.tests...) {
		b, err := build(ctx, folder, changed, p)
		if err != nil {
			return nil, err
		}
		if b == nil {
			continue
		}
		b.measure(ctx, folder, s.procs)
		for _, test := range b.tests {
			if test.fails {
				fmt.Fprintf(s.out, "%s: %s fails without a mutant, so it isn't used\n", b.dir, test.name)
			}
		}
		binaries = append(binaries, b)
	}
	return binaries, nil
}

// meetAll tries a mutant with each package of tests until a test notices it.
func meetAll(ctx context.Context, binaries []*binary, id int) (reached bool, caught string) {
	for _, b := range binaries {
		met, by := b.meet(ctx, id)
		reached = reached || met
		if by != "" {
			return true, filepath.Base(b.dir) + "." + by
		}
	}
	return reached, ""
}
