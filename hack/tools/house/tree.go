package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tree is the text of the repository's files, by their slash-separated paths from its root.
type tree map[string]string

// skippedFolders hold nothing that people write: git's own files, and what make builds.
var skippedFolders = [...]string{".git", "bin", "dist"}

// ownFolder holds this program, whose tests quote what it looks for.
const ownFolder = "hack/tools/house/"

// maxSize is the size above which a file is data.
const maxSize = 1 << 20

// readTree reads the text files below a folder.
func readTree(root string) (tree, error) {
	files := tree{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if skipped(entry.Name()) {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		return files.read(root, path)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the repository: %w", err)
	}
	return files, nil
}

func skipped(name string) bool {
	for _, folder := range skippedFolders {
		if name == folder {
			return true
		}
	}
	return false
}

// read adds a file, if it holds text.
func (files tree) read(root, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading a file: %w", err)
	}
	if len(text) > maxSize || bytes.IndexByte(text, 0) >= 0 {
		return nil
	}
	name, err := filepath.Rel(root, path)
	if err != nil {
		return fmt.Errorf("naming a file: %w", err)
	}
	if name = filepath.ToSlash(name); !strings.HasPrefix(name, ownFolder) {
		files[name] = string(text)
	}
	return nil
}

// isDocument reports whether a file is a page.
func isDocument(name string) bool { return strings.HasSuffix(name, ".md") }
