package statedir

import (
	"errors"
	"os"
	"strconv"
	"testing"
)

func TestOnlyOneHoldsADirectory(t *testing.T) {
	path := t.TempDir()
	first, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(path)
	inUse, ok := errors.AsType[*InUseError](err)
	if !ok || inUse.PID != strconv.Itoa(os.Getpid()) {
		t.Fatalf("a held directory can't be opened, and the error names the holder; got %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Open(path)
	if err != nil {
		t.Fatalf("a directory that was let go can be opened: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
}
