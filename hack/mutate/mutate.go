package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
)

// mutated is a package with all its mutants, none of which is on.
type mutated struct {
	mutants []*mutant
	files   map[string][]byte // what stands in the place of each file
}

// mutate returns the package with every mutant that compiles.
func mutate(p *checked, found exports) (*mutated, error) {
	dropped := map[string]map[int]bool{}
	const rounds = 40 // each drops at least one line, and most drop all that is left
	for range rounds {
		m := &mutator{pkg: p, dropped: dropped, seen: map[string]int{}}
		files := map[string][]byte{}
		for i, file := range p.files {
			if ast.IsGenerated(file) {
				continue
			}
			m.file, m.name, m.source, m.insertions = file, p.names[i], p.source[i], nil
			m.walkFile(file)
			files[m.name] = m.rewrite()
		}
		files[filepath.Join(p.dir, switchFile)] = fmt.Appendf(nil, switchSource, p.name, len(m.mutants)+1)
		compiles, err := dropErrors(p, files, found, dropped)
		if err != nil {
			return nil, err
		}
		if compiles {
			return &mutated{mutants: m.mutants, files: files}, nil
		}
	}
	return nil, fmt.Errorf("the mutants of %s don't compile", p.dir)
}

// dropErrors marks the lines that don't compile with their mutants, and reports whether all do.
func dropErrors(p *checked, files map[string][]byte, found exports, dropped map[string]map[int]bool) (bool, error) {
	fset := token.NewFileSet()
	var parsed []*ast.File
	for i, name := range p.names {
		source := p.source[i]
		if changed, ok := files[name]; ok {
			source = changed
		}
		file, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
		if err != nil {
			return false, fmt.Errorf("parsing the mutants: %w", err)
		}
		parsed = append(parsed, file)
	}
	name := filepath.Join(p.dir, switchFile)
	file, err := parser.ParseFile(fset, name, files[name], parser.SkipObjectResolution)
	if err != nil {
		return false, fmt.Errorf("parsing the switch: %w", err)
	}
	errs := check(p.path, fset, append(parsed, file), nil, found)
	for _, e := range errs {
		at := fset.Position(e.Pos)
		if dropped[at.Filename] == nil {
			dropped[at.Filename] = map[int]bool{}
		}
		if dropped[at.Filename][at.Line] {
			return false, fmt.Errorf("without its mutants a line doesn't compile either: %w", e)
		}
	}
	for _, e := range errs {
		at := fset.Position(e.Pos)
		dropped[at.Filename][at.Line] = true
	}
	return len(errs) == 0, nil
}

// switchFile is the file that is added to a package to switch its mutants.
const switchFile = "zz_mutants.go"

// switchSource is that file. It reads two variables. One has the ID of the mutant that is on. The other names a file that
// takes the ID of each mutant whose code is reached. A switch allocates nothing but for the first time, since tests count allocations.
const switchSource = `package %s

import (
	mutantOS "os"
	mutantStrconv "strconv"
	mutantAtomic "sync/atomic"
)

var (
	mutantActive  = mutantRead()
	mutantRecord  = mutantOS.Getenv("FETTLE_MUTANTS_REACHED")
	mutantReached [%d]mutantAtomic.Bool
	mutantFile    = mutantOpen()
)

func mutantRead() int {
	n, _ := mutantStrconv.Atoi(mutantOS.Getenv("FETTLE_MUTANT"))
	return n
}

func mutantOpen() *mutantOS.File {
	if mutantRecord == "" {
		return nil
	}
	f, err := mutantOS.OpenFile(mutantRecord, mutantOS.O_APPEND|mutantOS.O_CREATE|mutantOS.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	return f
}

func mutantOn(id int) bool {
	return mutantActive == id || mutantRecord != "" && mutantReach(id)
}

func mutantReach(id int) bool {
	if !mutantReached[id].Swap(true) {
		mutantFile.WriteString(mutantStrconv.Itoa(id) + "\n")
	}
	return false
}

func mutantPick[T any](id int, mutated, original T) T {
	if mutantOn(id) {
		return mutated
	}
	return original
}

func mutantSkip[S ~[]E, E any](id, i int, list S) S {
	if !mutantOn(id) {
		return list
	}
	return append(list[:i:i], list[i+1:]...)
}

func mutantSwap[S ~[]E, E any](id, i int, list S) S {
	if !mutantOn(id) {
		return list
	}
	list[i], list[i+1] = list[i+1], list[i]
	return list
}
`
