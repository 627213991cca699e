package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// withoutRow has the packages that have no row in the table, and why.
var withoutRow = map[string]string{
	"internal/dialect/conform":       "it is the tests that all dialects pass",
	"internal/remedy/conform":        "it is the tests that all remedies pass",
	"internal/informer/informertest": "it is for tests",
	"internal/sim":                   "it is for tests, and plants faults of its own",
}

// TestEachPackageHasARow: the table has each package of Fettle that has functions, unless withoutRow says why not.
func TestEachPackageHasARow(t *testing.T) {
	have, err := packagesWithFunctions("../..", "internal")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, row := range table() {
		if rows[row.dir] {
			t.Errorf("%s has two rows", row.dir)
		}
		rows[row.dir] = true
	}
	for _, dir := range have {
		switch reason := withoutRow[dir]; {
		case !rows[dir] && reason == "":
			t.Errorf("%s has no row in table.go", dir)
		case rows[dir] && reason != "":
			t.Errorf("%s has a row in table.go, and a reason for none: %s", dir, reason)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(withoutRow)) {
		if !slices.Contains(have, dir) {
			t.Errorf("%s does not exist, or has no functions", dir)
		}
	}
}

// packagesWithFunctions returns the folders below a folder whose code has functions, tests aside.
func packagesWithFunctions(root, below string) ([]string, error) {
	found := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, below), func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "testdata":
			return filepath.SkipDir
		case entry.IsDir(), !strings.HasSuffix(file, ".go"), strings.HasSuffix(file, "_test.go"):
			return nil
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(parsed.Decls, func(d ast.Decl) bool { _, is := d.(*ast.FuncDecl); return is }) {
			found[path.Dir(filepath.ToSlash(name))] = true
		}
		return nil
	})
	return slices.Sorted(maps.Keys(found)), err
}
