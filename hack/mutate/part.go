package main

import (
	"fmt"
	"hash/fnv"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// part is the share of all mutants that a run tries: the i-th of n, from 0. Neighbours stay together, so that a part builds
// the tests of few packages.
type part struct{ i, n int }

// parsePart reads "i/n", or "TEXT/n" where the text, such as the name of a commit, draws i.
func parsePart(s string) (part, error) {
	if s == "" {
		return part{0, 1}, nil
	}
	which, of, ok := strings.Cut(s, "/")
	n, err := strconv.Atoi(of)
	if !ok || err != nil || n < 1 {
		return part{}, fmt.Errorf("part %q: want i/n, or a commit and the number of parts", s)
	}
	const shortest = 7 // as Git shortens the name of a commit
	i, err := strconv.Atoi(which)
	switch {
	case len(which) >= shortest:
		h := fnv.New32a()
		_, _ = h.Write([]byte(which))  // it never fails
		i = int(h.Sum32() % uint32(n)) //nolint:gosec // n is positive
	case err != nil || i < 0 || i >= n:
		return part{}, fmt.Errorf("part %q: the first is 0, the last %d", s, n-1)
	}
	return part{i, n}, nil
}

// has reports whether the part holds the mutant at a place among all.
func (p part) has(place, total int) bool {
	return place >= p.i*total/p.n && place < (p.i+1)*total/p.n
}

// each calls f for 0 to n-1, procs at a time.
func each(procs, n int, f func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range procs {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// absolute returns a path that holds in any folder.
func absolute(path string) string {
	full, err := filepath.Abs(path)
	if err != nil {
		return path // only where the working folder is gone
	}
	return full
}
