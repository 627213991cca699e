package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// tally counts what became of the mutants of one package.
type tally struct {
	target    target
	explained explained
	report    io.Writer

	caught    int
	left      int      // not tried, for the time was up
	survivors []string // that nothing explains
	meant     int      // survivors that are explained
	stale     []string // explained, and yet caught
}

// add stores what became of a mutant.
func (t *tally) add(m *mutant, reached bool, caught string) {
	key := m.key()
	reason, meant := t.explained[key]
	switch {
	case caught != "":
		t.caught++
		fmt.Fprintf(t.report, "caught\t%s\tby %s\n", key, caught)
		if meant {
			t.stale = append(t.stale, key)
		}
	case meant:
		t.meant++
		fmt.Fprintf(t.report, "explained\t%s\t%s\n", key, reason)
	default:
		how := "no test notices"
		if !reached {
			how = "no test reaches"
		}
		t.survivors = append(t.survivors, fmt.Sprintf("%s (line %d): %s", how, m.line, key))
		fmt.Fprintf(t.report, "survived\t%s\t%s\n", key, how)
	}
}

// print writes what became of the mutants, and reports whether that is as the table allows.
func (t *tally) print(w io.Writer, took time.Duration) bool {
	slices.Sort(t.survivors)
	for _, s := range t.survivors {
		fmt.Fprintf(w, "  %s\n", s)
	}
	fmt.Fprintf(w, "%s: %d caught, %d survive, %d of them explained; %d not tried (%d s)\n",
		t.target.dir, t.caught, len(t.survivors)+t.meant, t.meant, t.left, int(took.Seconds()))
	for _, key := range t.stale {
		fmt.Fprintf(w, "error: a test notices a mutant that is explained as unnoticeable: %s\n", key)
	}
	ok := len(t.stale) == 0
	if over := len(t.survivors) - t.target.open; over > 0 && !t.target.unmeasured {
		fmt.Fprintf(w, "error: %s may have %d survivors that nothing explains\n", t.target.dir, t.target.open)
		ok = false
	}
	return ok
}
