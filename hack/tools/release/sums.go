package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

const sums = "SHA256SUMS"

// writeSums writes the checksums of all files of a folder, in the order of their names, as sha256sum reads them.
func writeSums(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("listing what was built: %w", err)
	}
	var lines bytes.Buffer
	for _, entry := range entries {
		if entry.Name() == sums {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return fmt.Errorf("reading what was built: %w", err)
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	if err := os.WriteFile(filepath.Join(folder, sums), lines.Bytes(), 0o644); err != nil { //nolint:gosec // anyone may read it
		return fmt.Errorf("writing the checksums: %w", err)
	}
	return nil
}
