package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Directory stores the state of the agent in a file of a directory. The directory must not outlive the boot for long: it is best on a file
// system in memory.
type Directory string

// file is the name of the state's file, and lock that of a file that the running agent has locked.
const (
	file = "state.json"
	lock = "lock"
)

// ErrLocked is returned while another agent uses the directory.
var ErrLocked = errors.New("another agent uses the directory of the state")

// Lock makes the directory, and keeps other agents from using it until unlock is called, or this process ends.
func (d Directory) Lock() (unlock func(), err error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the state: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(string(d), lock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the directory of the state: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return func() { _ = f.Close() }, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, ErrLocked
	}
	return nil, fmt.Errorf("locking the directory of the state: %w", err)
}

// Load returns the stored state. There is none of a first start, or of another boot: the state is then empty but for its boot ID. An error says
// that the stored state can't be read.
func (d Directory) Load(boot string) (State, error) {
	text, err := d.read(file, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return State{Boot: boot}, nil
	}
	if err != nil {
		return State{}, err
	}
	s, err := decodeState(text)
	if err != nil {
		return State{}, err
	}
	if s.Boot != boot {
		return State{Boot: boot}, nil
	}
	return s, nil
}

// Save replaces the stored state. Once it has returned without an error, the state outlives the process. After a failure one of both
// states is stored, and not a part. A state that binds to nothing is stored too by removing the one before, as on a file system that is full.
func (d Directory) Save(s State) error {
	text, err := s.encode()
	if err != nil {
		return err
	}
	err = d.replace(file, text)
	if err != nil && !s.binds() && d.remove(file) == nil {
		return nil
	}
	return err
}

// remove removes a file, if there is one.
func (d Directory) remove(name string) error {
	if err := os.Remove(filepath.Join(string(d), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing a stored file: %w", err)
	}
	return flush(string(d))
}

// read returns the text of a file. The error is fs.ErrNotExist if there is none, and a longer file is an error.
func (d Directory) read(name string, most int64) ([]byte, error) {
	f, err := os.Open(filepath.Join(string(d), name))
	if err != nil {
		return nil, fmt.Errorf("opening a stored file: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = errLong
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.Name(), err)
	}
	return text, nil
}

var errLong = errors.New("it is longer than this program writes it")

// replace replaces a file. Once it has returned without an error, the text outlives the process. After a failure one of both texts is stored,
// and not a part.
func (d Directory) replace(name string, text []byte) error {
	next := filepath.Join(string(d), name+".new")
	if err := write(next, text); err != nil {
		return fmt.Errorf("writing %s: %w", next, err)
	}
	if err := os.Rename(next, filepath.Join(string(d), name)); err != nil {
		return fmt.Errorf("replacing a stored file: %w", err)
	}
	if err := flush(string(d)); err != nil {
		return fmt.Errorf("syncing the directory of stored files: %w", err)
	}
	return nil
}

// write writes a file and has it reach the disk.
func write(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err //nolint:wrapcheck // Save says what failed
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// flush has the entries of a directory reach the disk.
func flush(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err //nolint:wrapcheck // Save says what failed
	}
	return errors.Join(d.Sync(), d.Close())
}
