package watchdog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSysrq(t *testing.T) {
	name := filepath.Join(t.TempDir(), "trigger")
	if _, err := openSysrq(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v", err)
	} else {
		wantFailure(t, err, NoSysrq, "opening")
	}
	if err := os.WriteFile(name, nil, 0o200); err != nil {
		t.Fatal(err)
	}
	s, err := openSysrq(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.file.Read(make([]byte, 1)); !errors.Is(err, unix.EBADF) {
		t.Errorf("reading the file: %v", err)
	}
	wantFailure(t, s.Reset(), NoSysrq, "resetting", "the node goes on")
	if content, err := os.ReadFile(name); err != nil || string(content) != "b" {
		t.Errorf("written is %q: %v", content, err)
	}
	if err := s.file.Close(); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, s.Reset(), NoSysrq, os.ErrClosed.Error())
}

// TestOpenSysrq resets nothing: it opens the file, if this process may.
func TestOpenSysrq(t *testing.T) {
	const name = "/proc/sysrq-trigger"
	s, err := OpenSysrq()
	if err != nil {
		wantFailure(t, err, NoSysrq, name)
		return
	}
	if s.file.Name() != name {
		t.Errorf("the file is %s", s.file.Name())
	}
	if err := s.file.Close(); err != nil {
		t.Error(err)
	}
}
