package watchdog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a timeout. A watchdog whose timeout, as read back, is out of them is refused.
const (
	MinTimeout = time.Second
	MaxTimeout = time.Hour
)

// Config says which watchdog to open, and which to refuse.
type Config struct {
	// Path is the device, such as /dev/watchdog.
	Path string
	// Timeout is the timeout to set. A part of a second is dropped. A watchdog may set another timeout instead, or have a fixed one:
	// Device.Timeout returns what it has.
	Timeout time.Duration
	// AllowSoftware allows a watchdog that the kernel plays, and AllowVirtualMachine a node that may be a virtual machine.
	AllowSoftware, AllowVirtualMachine bool
	// MayPet is called right before each call that pets the watchdog: to open it, and to set its timeout. Where it returns false, Open makes
	// no such call. Without it Open makes them.
	MayPet func() bool
}

// Device is an open watchdog, which is armed. Its methods may be called concurrently.
type Device struct {
	path     string
	calls    calls
	class    class
	identity string
	options  uint32
	timeout  time.Duration

	mu     sync.Mutex
	fd     int
	closed bool
}

// Open opens a watchdog, which arms it or pets it. It refuses watchdogs of which it is known that they won't do before it opens them, as far as
// the kernel shows it. An error is an *Error. If its Armed is set, the watchdog was opened all the same, and is the caller's.
func Open(c Config) (*Device, error) {
	return open(c, kernel(), os.DirFS("/"))
}

func open(c Config, k calls, root fs.FS) (*Device, error) {
	if err := c.refuse(root); err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err := k.stat(c.Path, &stat); err != nil {
		return nil, openingFailed(c.Path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFCHR {
		return nil, &Error{Reason: NoWatchdog, text: c.Path + " is no device"}
	}
	d := &Device{path: c.Path, calls: k, class: readClass(root, uint64(stat.Rdev))} //nolint:unconvert // it has 32 bits elsewhere
	if d.class.identity != "" && software(d.class.identity) && !c.AllowSoftware {
		return nil, d.isSoftware(d.class.identity)
	}
	if c.MayPet != nil && !c.MayPet() {
		return nil, d.fails(MayNotPet, "opening", errNoPet)
	}
	fd, err := k.open(c.Path)
	if err != nil {
		return nil, openingFailed(c.Path, err)
	}
	d.fd = fd
	if failure := d.prepare(c); failure != nil {
		failure.Armed = d
		return nil, failure
	}
	return d, nil
}

// refuse returns why no watchdog is to be opened, or nil.
func (c Config) refuse(root fs.FS) error {
	if c.Timeout < MinTimeout || c.Timeout > MaxTimeout {
		return &Error{Reason: WatchdogTimeout, text: fmt.Sprintf("a timeout of %s is not from %s to %s", c.Timeout, MinTimeout, MaxTimeout)}
	}
	if c.AllowVirtualMachine {
		return nil
	}
	virtual, err := virtualMachine(root)
	if err != nil {
		return &Error{Reason: MachineUnknown, text: "finding out whether the node is a virtual machine", err: err}
	}
	if virtual {
		return &Error{Reason: VirtualMachine, text: "the node is a virtual machine, whose watchdog stops when it is paused"}
	}
	return nil
}

// prepare reads what the watchdog is, and sets its timeout.
func (d *Device) prepare(c Config) *Error {
	info, err := d.calls.support(d.fd)
	if err != nil {
		reason := WatchdogFailed
		if unsupported(err) {
			reason = NoWatchdog
		}
		return d.fails(reason, "identifying", err)
	}
	d.options, d.identity = info.Options, printable(info.Identity)
	switch {
	case d.Software() && !c.AllowSoftware:
		return d.isSoftware(d.identity)
	case d.offers(unix.WDIOF_ALARMONLY):
		return &Error{Reason: AlarmOnly, text: fmt.Sprintf("the watchdog %s (%q) raises an alarm and resets nothing", d.path, d.identity)}
	case !d.offers(unix.WDIOF_MAGICCLOSE) && !d.class.noWayOut:
		return &Error{
			Reason: WatchdogStopsOnClose,
			text:   fmt.Sprintf("the watchdog %s (%q) stops when its process ends, even by a fault", d.path, d.identity),
		}
	}
	if d.offers(unix.WDIOF_SETTIMEOUT) {
		if c.MayPet != nil && !c.MayPet() {
			return d.fails(MayNotPet, "setting the timeout of", errNoPet)
		}
		if failure := d.setTimeout(c.Timeout); failure != nil {
			return failure
		}
	}
	return d.readTimeout()
}

// setTimeout sets the timeout.
func (d *Device) setTimeout(wanted time.Duration) *Error {
	err := d.calls.set(d.fd, unix.WDIOC_SETTIMEOUT, int(wanted/time.Second))
	if err == nil {
		return nil
	}
	reason := WatchdogFailed
	if errors.Is(err, unix.EINVAL) {
		reason = WatchdogTimeout
	}
	return d.fails(reason, fmt.Sprintf("setting a timeout of %s of", wanted), err)
}

// readTimeout reads back which timeout the watchdog has.
func (d *Device) readTimeout() *Error {
	seconds, err := d.calls.number(d.fd, unix.WDIOC_GETTIMEOUT)
	if err != nil {
		return d.fails(WatchdogTimeout, "reading the timeout of", err)
	}
	timeout := time.Duration(seconds) * time.Second
	if timeout < MinTimeout || timeout > MaxTimeout {
		return &Error{
			Reason: WatchdogTimeout,
			text:   fmt.Sprintf("the timeout of the watchdog %s is %s, which is not from %s to %s", d.path, timeout, MinTimeout, MaxTimeout),
		}
	}
	d.timeout = timeout
	return nil
}

// Timeout returns the timeout as read back from the watchdog. It is zero if Open found no valid one.
func (d *Device) Timeout() time.Duration { return d.timeout }

// Identity returns how the driver of the watchdog names it, in at most 32 printable characters.
func (d *Device) Identity() string { return d.identity }

// Software reports whether the kernel plays the watchdog.
func (d *Device) Software() bool { return software(d.identity) }

// errDisarmed is returned where a watchdog was disarmed before, and errNoPet where it may not be petted now.
var (
	errDisarmed = errors.New("the watchdog is disarmed")
	errNoPet    = errors.New("this would pet the watchdog, which is not allowed now")
)

// Pet begins the timeout anew.
func (d *Device) Pet() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return &Error{Reason: WatchdogFailed, text: "petting", err: errDisarmed}
	}
	if err := d.pet(); err != nil {
		return d.fails(WatchdogFailed, "petting", err)
	}
	return nil
}

func (d *Device) pet() error {
	if d.offers(unix.WDIOF_KEEPALIVEPING) {
		return d.calls.keepAlive(d.fd)
	}
	return d.calls.writeByte(d.fd, 0) // any byte but V
}

// Disarm stops the watchdog and closes it. If that fails, the watchdog stays open, so that its owner may pet it. By an error with the reason NoWayOut it is
// armed as before. By any other it may be armed or not, so that no promise may rest on it before Disarm has succeeded. Once it has succeeded, another call does nothing.
func (d *Device) Disarm() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	stopped, err := d.stop()
	if err != nil {
		return err
	}
	// The byte V tells drivers without an answer to a request to stop that the end of this process is no fault. A watchdog that has stopped needs none:
	// if it stayed open, its owner would pet what can't fire.
	if d.offers(unix.WDIOF_MAGICCLOSE) {
		if err := d.calls.writeByte(d.fd, 'V'); err != nil && !stopped {
			return d.fails(WatchdogFailed, "announcing the close of", err)
		}
	}
	d.closed = true
	_ = d.calls.close(d.fd) // Linux closes it in any case, and passes on no answer of the driver
	return nil
}

// stop requests that the watchdog stops, and reports whether it has. Unlike a close, the request has an answer. Drivers that don't know it stop when
// they are closed.
func (d *Device) stop() (bool, error) {
	err := d.calls.set(d.fd, unix.WDIOC_SETOPTIONS, unix.WDIOS_DISABLECARD)
	switch {
	case errors.Is(err, unix.EBUSY), unsupported(err) && d.class.noWayOut:
		return false, d.fails(NoWayOut, "stopping", err)
	case err != nil && !unsupported(err):
		return false, d.fails(WatchdogFailed, "stopping", err)
	}
	return err == nil, nil
}

// offers reports whether the watchdog has an ability.
func (d *Device) offers(ability uint32) bool { return d.options&ability != 0 }

func (d *Device) fails(reason Reason, doing string, err error) *Error {
	return &Error{Reason: reason, text: fmt.Sprintf("%s the watchdog %s", doing, d.path), err: err}
}

// isSoftware returns the refusal of a watchdog with a name.
func (d *Device) isSoftware(identity string) *Error {
	return &Error{
		Reason: SoftwareWatchdog,
		text:   fmt.Sprintf("the watchdog %s (%q) is software, which doesn't reset a node whose kernel hangs", d.path, identity),
	}
}

// printable returns a text of the kernel, which ends at its first zero byte.
func printable(raw [32]uint8) string {
	text, _, _ := strings.Cut(string(raw[:]), "\x00")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text))
}
