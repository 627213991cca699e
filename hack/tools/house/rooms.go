package main

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
)

const (
	roomsName = "hack/rooms.txt"
	coreDir   = "internal/core"
)

// rooms are the rooms of the core, from the bottom to the top.
type rooms struct {
	// heightOf has the index of the room of a file, and names the names of the rooms.
	heightOf map[string]int
	names    []string
	// allowed are the uses of rooms above that remain.
	allowed []string
}

// readRooms reads the table of rooms.
func readRooms(files tree) (rooms, error) {
	r := rooms{heightOf: map[string]int{}}
	for line := range strings.Lines(files[roomsName]) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, members, isRoom := strings.Cut(line, ":")
		if !isRoom {
			r.allowed = append(r.allowed, line)
			continue
		}
		for file := range strings.FieldsSeq(members) {
			if _, twice := r.heightOf[file]; twice {
				return rooms{}, fmt.Errorf("%s has file %s in two rooms", roomsName, file) //nolint:err113 // read by a person
			}
			r.heightOf[file] = len(r.names)
		}
		r.names = append(r.names, name)
	}
	return r, nil
}

// check returns what breaks the rules of the rooms. That is a file of the core without a room, or a listed file that does not exist. It also is
// a use of a room above that is not allowed, or an allowance that nothing needs.
func (r rooms) check(files tree) ([]string, error) {
	upward, known, err := r.upward(files)
	if err != nil {
		return nil, err
	}
	var broken []string
	for file := range r.heightOf {
		if !known[file] {
			broken = append(broken, file+".go does not exist")
		}
	}
	for file := range known {
		if _, has := r.heightOf[file]; !has {
			broken = append(broken, file+".go has no room")
		}
	}
	for _, use := range upward {
		if !slices.Contains(r.allowed, use.line) {
			broken = append(broken, fmt.Sprintf("%s: %s of room %s, which is above", use.at, use.line, use.room))
		}
	}
	for _, line := range r.allowed {
		if !slices.ContainsFunc(upward, func(u upwardUse) bool { return u.line == line }) {
			broken = append(broken, line+" is no use of a room above; remove the line")
		}
	}
	slices.Sort(broken)
	return broken, nil
}

// upwardUse is a use of an identifier that a room above declares.
type upwardUse struct{ line, at, room string }

// upward returns the first use of each identifier of a room above by each file, and the files of the core.
func (r rooms) upward(files tree) ([]upwardUse, map[string]bool, error) {
	set, known := token.NewFileSet(), map[string]bool{}
	var parsed []*ast.File
	for name, text := range files {
		if path.Dir(name) != coreDir || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the core: %w", err)
		}
		parsed, known[fileOf(name)] = append(parsed, file), true
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	checker := types.Config{Importer: importer.Default()}
	core, err := checker.Check(coreDir, set, parsed, &info)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the core: %w", err)
	}
	first := map[string]upwardUse{}
	for ident, object := range info.Uses {
		if object.Pkg() != core {
			continue
		}
		at, of := set.Position(ident.Pos()), fileOf(set.Position(object.Pos()).Filename)
		by := fileOf(at.Filename)
		if r.heightOf[of] <= r.heightOf[by] {
			continue
		}
		use := upwardUse{line: by + " " + object.Name(), at: fmt.Sprintf("%s:%d", at.Filename, at.Line), room: r.names[r.heightOf[of]]}
		if old, seen := first[use.line]; !seen || at.Line < lineOf(old.at) {
			first[use.line] = use
		}
	}
	uses := make([]upwardUse, 0, len(first))
	for _, use := range first {
		uses = append(uses, use)
	}
	slices.SortFunc(uses, func(a, b upwardUse) int { return strings.Compare(a.line, b.line) })
	return uses, known, nil
}

// fileOf returns the name of a Go file without its folder and its ending.
func fileOf(name string) string { return strings.TrimSuffix(path.Base(name), ".go") }

// lineOf returns the line of a place.
func lineOf(at string) int {
	line := 0
	_, _ = fmt.Sscanf(at[strings.LastIndexByte(at, ':')+1:], "%d", &line)
	return line
}
