package statedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Files of a state directory that more than one package needs.
const (
	Kubeconfig = "kubeconfig"
	Log        = "sandbox.log"
	lockFile   = "sandbox.lock"
)

// InUseError says that another sandbox holds the directory.
type InUseError struct {
	Dir string
	PID string // as the holder wrote it; empty if it could not be read
}

func (e *InUseError) Error() string {
	holder := "another sandbox"
	if e.PID != "" {
		holder = "a sandbox with pid " + e.PID
	}
	return fmt.Sprintf("%s is already running on %s", holder, e.Dir)
}

// Dir is a state directory that this process holds.
type Dir struct {
	path string
	lock *os.File
}

// Open creates the directory if needed and holds it until Close, or until the process ends. If another process holds
// it, the error is an *InUseError and nothing was touched.
func Open(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("finding the absolute path of %q: %w", path, err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, fmt.Errorf("creating the state directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(abs, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the state directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer func() { _ = lock.Close() }()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &InUseError{Dir: abs, PID: readPID(lock)}
		}
		return nil, fmt.Errorf("locking the state directory: %w", err)
	}
	if err := writePID(lock); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("writing the process id to the lock: %w", err)
	}
	return &Dir{path: abs, lock: lock}, nil
}

// Path returns the absolute path of a file in the directory.
func (d *Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

// Close releases the directory. The lock file stays, since removing it would race with the next holder.
func (d *Dir) Close() error {
	if err := d.lock.Close(); err != nil {
		return fmt.Errorf("closing the lock of the state directory: %w", err)
	}
	return nil
}

func readPID(lock *os.File) string {
	buf := make([]byte, 32)
	n, _ := lock.ReadAt(buf, 0)
	pid := strings.TrimSpace(string(buf[:n]))
	if _, err := strconv.Atoi(pid); err != nil {
		return ""
	}
	return pid
}

func writePID(lock *os.File) error {
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}
