package watchdog

import (
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"
)

const (
	path  = "/dev/watchdog0"
	minor = 7
	fd    = 42
)

// usual is what the driver of the tests offers unless a test says otherwise. That it notices heat is of no matter.
const usual = unix.WDIOF_SETTIMEOUT | unix.WDIOF_MAGICCLOSE | unix.WDIOF_KEEPALIVEPING | unix.WDIOF_OVERHEAT

// fake is a watchdog as the kernel's framework has it.
type fake struct {
	options  uint32
	identity string
	timeout  int
	// rounds is what a timeout is set to, if not to the number that is wanted.
	rounds   int
	noWayOut bool
	// noStop is set for drivers that know no request to stop.
	noStop bool
	// errs are errors of calls, by their names.
	errs map[string]error
	// short is set if a write takes no byte.
	short bool
	mode  uint32

	open, armed, magic bool
	pets               int
	log                []string
}

func newFake() *fake {
	return &fake{options: usual, identity: "i6300ESB timer", timeout: 30, mode: unix.S_IFCHR | 0o777, errs: map[string]error{}}
}

func (f *fake) said(call string) error {
	f.log = append(f.log, call)
	return f.errs[call]
}

func (f *fake) calls() calls {
	return calls{stat: f.stat, open: f.opened, support: f.support, number: f.number, set: f.set, keepAlive: f.keepAlive, write: f.write, close: f.close}
}

func (f *fake) stat(name string, into *unix.Stat_t) error {
	if name != path {
		return unix.ENOENT
	}
	into.Mode, into.Rdev = f.mode, unix.Mkdev(247, minor)
	return f.said("stat")
}

func (f *fake) opened(name string) (int, error) {
	if name != path {
		return -1, unix.ENOENT
	}
	if err := f.said("open"); err != nil {
		return -1, err
	}
	if f.open {
		return -1, unix.EBUSY
	}
	f.open, f.armed = true, true
	f.pets++
	return fd, nil
}

func (f *fake) support(n int) (*unix.WatchdogInfo, error) {
	f.want(n)
	if err := f.said("support"); err != nil {
		return nil, err
	}
	info := &unix.WatchdogInfo{Options: f.options}
	copy(info.Identity[:], f.identity)
	return info, nil
}

func (f *fake) number(n int, request uint) (uint32, error) {
	f.want(n)
	if request != unix.WDIOC_GETTIMEOUT {
		return 0, unix.ENOTTY
	}
	return uint32(f.timeout), f.said("get timeout")
}

func (f *fake) set(n int, request uint, value int) error {
	f.want(n)
	switch {
	case request == unix.WDIOC_SETTIMEOUT:
		if err := f.said(fmt.Sprintf("set timeout %d", value)); err != nil {
			return err
		}
		if f.timeout = value; f.rounds != 0 {
			f.timeout = f.rounds
		}
		f.pets++
		return nil
	case request == unix.WDIOC_SETOPTIONS && value == unix.WDIOS_DISABLECARD && !f.noStop:
		if err := f.said("stop"); err != nil {
			return err
		}
		if f.noWayOut {
			return unix.EBUSY
		}
		f.armed = false
		return nil
	}
	return unix.ENOTTY
}

func (f *fake) keepAlive(n int) error {
	f.want(n)
	if f.options&unix.WDIOF_KEEPALIVEPING == 0 {
		return unix.EOPNOTSUPP
	}
	if err := f.said("keep alive"); err != nil {
		return err
	}
	f.pets++
	return nil
}

func (f *fake) write(n int, content []byte) (int, error) {
	f.want(n)
	if err := f.said(fmt.Sprintf("write %q", content)); err != nil {
		return 0, err
	}
	if f.short {
		return 0, nil
	}
	f.magic = slices.Contains(content, 'V')
	f.pets++
	return len(content), nil
}

func (f *fake) close(n int) error {
	f.want(n)
	f.open = false
	if f.armed && !f.noWayOut && (f.magic || f.options&unix.WDIOF_MAGICCLOSE == 0) {
		f.armed = false
	}
	if f.armed {
		f.pets++
	}
	return f.said("close")
}

// want panics if a call has another file.
func (*fake) want(n int) {
	if n != fd {
		panic(fmt.Sprintf("file %d", n))
	}
}

// hardware is the file system of a node that is no virtual machine.
func hardware() fstest.MapFS {
	return fstest.MapFS{"proc/cpuinfo": file("processor\t: 0\nflags\t\t: fpu vme\n")}
}

func file(content string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(content)} }

func config() Config { return Config{Path: path, Timeout: 10 * time.Second} }

// start opens a watchdog.
func (f *fake) start(t *testing.T, root fs.FS) *Device {
	t.Helper()
	d, err := open(config(), f.calls(), root)
	if err != nil || d == nil {
		t.Fatalf("opening: %v, %v", d, err)
	}
	f.log = nil
	return d
}

// wantLog compares the calls that were made since the last look.
func (f *fake) wantLog(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(f.log, want) {
		t.Errorf("the calls are %q, want %q", f.log, want)
	}
	f.log = nil
}
