package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// checked is a package with its types.
type checked struct {
	dir    string
	path   string
	name   string
	fset   *token.FileSet
	files  []*ast.File
	names  []string // of the files, from the root of the module
	source [][]byte
	info   *types.Info
}

// exports holds the compiled export data of packages, by import path.
type exports map[string]string

// listExports compiles the packages as far as needed and returns the export data of all that they import.
func listExports(ctx context.Context, dirs []string) (exports, error) {
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	args = append(args, "os", "strconv", "sync/atomic") // of the switch
	for _, dir := range dirs {
		args = append(args, "./"+dir)
	}
	out, err := output(ctx, "go", args...)
	if err != nil {
		return nil, err
	}
	found := exports{}
	for line := range strings.Lines(string(out)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			found[path] = file
		}
	}
	return found, nil
}

// output runs a command and returns what it prints. An error holds what it printed as errors.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output() //nolint:gosec // the caller names commands of Go
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("running %s %s: %w\n%s", name, args[0], err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", name, err)
	}
	return out, nil
}

// goFiles is what go list says of a package.
type goFiles struct {
	ImportPath string   `json:"ImportPath"`
	Name       string   `json:"Name"`
	GoFiles    []string `json:"GoFiles"`
}

// load parses a package, tests aside, and checks its types.
func load(ctx context.Context, dir string, found exports) (*checked, error) {
	out, err := output(ctx, "go", "list", "-json=ImportPath,Name,GoFiles", "./"+dir)
	if err != nil {
		return nil, err
	}
	var list goFiles
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("reading the list of %s: %w", dir, err)
	}
	p := &checked{dir: dir, path: list.ImportPath, name: list.Name, fset: token.NewFileSet()}
	for _, name := range list.GoFiles {
		path := filepath.Join(dir, name)
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading a file: %w", err)
		}
		file, err := parser.ParseFile(p.fset, path, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parsing: %w", err)
		}
		p.files, p.names, p.source = append(p.files, file), append(p.names, path), append(p.source, source)
	}
	p.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	if errs := check(p.path, p.fset, p.files, p.info, found); len(errs) > 0 {
		return nil, fmt.Errorf("checking the types of %s: %w", dir, errs[0])
	}
	return p, nil
}

// check returns the type errors of the files.
func check(path string, fset *token.FileSet, files []*ast.File, info *types.Info, found exports) []types.Error {
	var errs []types.Error
	config := types.Config{
		Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
			return os.Open(found[path])
		}),
		Error: func(err error) {
			var one types.Error
			if errors.As(err, &one) && !one.Soft {
				errs = append(errs, one)
			}
		},
	}
	_, _ = config.Check(path, fset, files, info) // Error has seen what is wrong
	return errs
}
