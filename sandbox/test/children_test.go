package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// onlyChild returns the process ID of a process's one child.
func onlyChild(t *testing.T, parent int) int {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		t.Fatal(err)
	}
	var children []string
	for _, file := range threads {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, strings.Fields(string(raw))...)
	}
	if len(children) != 1 {
		t.Fatalf("process %d has the children %v; one was expected", parent, children)
	}
	child, err := strconv.Atoi(children[0])
	if err != nil {
		t.Fatal(err)
	}
	return child
}

// isZombie reports whether the process has ended and its parent has not noticed.
func isZombie(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true // gone meanwhile
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return strings.HasPrefix(rest, "Z")
}
