package watchdog

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"
)

// wantFailure checks the reason of an error and returns it.
func wantFailure(t *testing.T, err error, want Reason, words ...string) *Error {
	t.Helper()
	failure, ok := errors.AsType[*Error](err)
	if !ok || failure.Reason != want {
		t.Fatalf("the error is %v, want reason %s", err, want)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error is %q, which lacks %q", err, word)
		}
	}
	return failure
}

func TestOpen(t *testing.T) {
	f := newFake()
	d, err := open(config(), f.calls(), hardware())
	if err != nil {
		t.Fatal(err)
	}
	f.wantLog(t, "stat", "open", "support", "set timeout 10", "get timeout")
	if d.Timeout() != 10*time.Second || d.Identity() != "i6300ESB timer" || d.Software() || !f.armed {
		t.Errorf("timeout %s, identity %q, software %t, armed %t", d.Timeout(), d.Identity(), d.Software(), f.armed)
	}
	_, err = open(config(), f.calls(), hardware())
	busy := wantFailure(t, err, WatchdogBusy, path, unix.EBUSY.Error())
	if busy.Armed != nil || !f.armed {
		t.Errorf("a watchdog of another process is %+v, armed %t", busy.Armed, f.armed)
	}
}

// TestTimeout shows that the timeout which was read back counts.
func TestTimeout(t *testing.T) {
	for _, c := range []struct {
		name   string
		wanted time.Duration
		change func(*fake)
		want   time.Duration
	}{
		{"as wanted", 10 * time.Second, func(*fake) {}, 10 * time.Second},
		{"rounded down", 10*time.Second + 999*time.Millisecond, func(*fake) {}, 10 * time.Second},
		{"the shortest", time.Second, func(*fake) {}, time.Second},
		{"the longest", time.Hour, func(*fake) {}, time.Hour},
		{"another one", 10 * time.Second, func(f *fake) { f.rounds = 16 }, 16 * time.Second},
		{"the shortest instead", 10 * time.Second, func(f *fake) { f.rounds = 1 }, time.Second},
		{"the longest instead", 10 * time.Second, func(f *fake) { f.rounds = 3600 }, time.Hour},
		{"a fixed one", 10 * time.Second, func(f *fake) { f.options &^= unix.WDIOF_SETTIMEOUT }, 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			c.change(f)
			given := config()
			given.Timeout = c.wanted
			d, err := open(given, f.calls(), hardware())
			if err != nil || d.Timeout() != c.want {
				t.Fatalf("the timeout is %v, want %s: %v", d, c.want, err)
			}
		})
	}
}

// TestRefused shows what is refused without opening the device, so that it isn't armed.
func TestRefused(t *testing.T) {
	virtual := fstest.MapFS{"proc/cpuinfo": file("flags : fpu hypervisor\n")}
	for _, c := range []struct {
		name   string
		change func(*fake, *Config)
		root   fs.FS
		want   Reason
		words  string
	}{
		{"virtual machine", func(*fake, *Config) {}, virtual, VirtualMachine, "virtual machine"},
		{"perhaps one", func(*fake, *Config) {}, fstest.MapFS{}, MachineUnknown, "neither"},
		{"too short", func(_ *fake, c *Config) { c.Timeout = time.Second - 1 }, hardware(), WatchdogTimeout, "from 1s to 1h0m0s"},
		{"too long", func(_ *fake, c *Config) { c.Timeout = time.Hour + 1 }, hardware(), WatchdogTimeout, "1h0m0.000000001s"},
		{"missing", func(_ *fake, c *Config) { c.Path = "/dev/watchdog9" }, hardware(), NoWatchdog, "/dev/watchdog9"},
		{"no device", func(f *fake, _ *Config) { f.mode = unix.S_IFREG }, hardware(), NoWatchdog, path + " is no device"},
		{"of blocks", func(f *fake, _ *Config) { f.mode = unix.S_IFBLK }, hardware(), NoWatchdog, "is no device"},
		{"forbidden", func(f *fake, _ *Config) { f.errs["stat"] = unix.EACCES }, hardware(), WatchdogForbidden, "permission"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, given := newFake(), config()
			c.change(f, &given)
			d, err := open(given, f.calls(), c.root)
			if failure := wantFailure(t, err, c.want, c.words); d != nil || failure.Armed != nil || f.armed {
				t.Errorf("the device is %v and %v, armed %t", d, failure.Armed, f.armed)
			}
			for _, call := range f.log {
				if call == "open" {
					t.Error("the device was opened")
				}
			}
		})
	}
}

func TestAllowed(t *testing.T) {
	f := newFake()
	f.identity = "Software Watchdog"
	d, err := open(Config{Path: path, Timeout: time.Minute, AllowSoftware: true, AllowVirtualMachine: true}, f.calls(), fstest.MapFS{})
	if err != nil || !d.Software() || d.Timeout() != time.Minute {
		t.Fatalf("%v, %v", d, err)
	}
	known := sysfs("Software Watchdog", "0")
	if d, err = open(Config{Path: path, Timeout: time.Minute, AllowSoftware: true}, newFakeOf(f.identity).calls(), known); err != nil || !d.Software() {
		t.Fatalf("%v, %v", d, err)
	}
}

func newFakeOf(identity string) *fake {
	f := newFake()
	f.identity = identity
	return f
}

// sysfs is the file system of a node that is no virtual machine, with what is shown of the watchdog.
func sysfs(identity, noWayOut string) fstest.MapFS {
	root := hardware()
	folder := fmt.Sprintf("sys/dev/char/247:%d/", minor)
	root[folder+"identity"], root[folder+"nowayout"] = file(identity+"\n"), file(noWayOut+"\n")
	return root
}

// TestSoftwareIsNotArmed shows that software is recognised by sysfs, without opening the device.
func TestSoftwareIsNotArmed(t *testing.T) {
	f := newFakeOf("Software Watchdog")
	_, err := open(config(), f.calls(), sysfs("Software Watchdog", "0"))
	if failure := wantFailure(t, err, SoftwareWatchdog, `"Software Watchdog"`, path); failure.Armed != nil || f.armed {
		t.Errorf("the device is %v, armed %t", failure.Armed, f.armed)
	}
	f.wantLog(t, "stat")
}

func TestOpeningFails(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Reason
	}{
		{unix.ENOENT, NoWatchdog},
		{unix.ENODEV, NoWatchdog},
		{unix.ENXIO, NoWatchdog},
		{unix.EBUSY, WatchdogBusy},
		{unix.EACCES, WatchdogForbidden},
		{unix.EPERM, WatchdogForbidden},
		{unix.EIO, WatchdogFailed},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			f := newFake()
			f.errs["open"] = c.err
			_, err := open(config(), f.calls(), hardware())
			failure := wantFailure(t, err, c.want, "opening", path, c.err.Error())
			if failure.Armed != nil || !errors.Is(err, c.err) {
				t.Errorf("the error is %+v", failure)
			}
			f.wantLog(t, "stat", "open")
		})
	}
}

// TestHalfOpened shows that the caller owns a watchdog that won't do, but is armed. It can be petted and disarmed.
func TestHalfOpened(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*fake)
		want   Reason
		words  string
	}{
		{"software", func(f *fake) { f.identity = "Software Watchdog" }, SoftwareWatchdog, `"Software Watchdog"`},
		{"nameless", func(f *fake) { f.identity = "" }, SoftwareWatchdog, `""`},
		{"alarm", func(f *fake) { f.options |= unix.WDIOF_ALARMONLY }, AlarmOnly, "alarm"},
		{"stops on close", func(f *fake) { f.options &^= unix.WDIOF_MAGICCLOSE }, WatchdogStopsOnClose, "stops"},
		{"no watchdog", func(f *fake) { f.errs["support"] = unix.ENOTTY }, NoWatchdog, "identifying"},
		{"unknown", func(f *fake) { f.errs["support"] = unix.EIO }, WatchdogFailed, "identifying"},
		{"timeout refused", func(f *fake) { f.errs["set timeout 10"] = unix.EINVAL }, WatchdogTimeout, "setting a timeout of 10s of the watchdog"},
		{"timeout not set", func(f *fake) { f.errs["set timeout 10"] = unix.EIO }, WatchdogFailed, "setting a timeout"},
		{"timeout unknown", func(f *fake) { f.errs["get timeout"] = unix.EOPNOTSUPP }, WatchdogTimeout, "reading the timeout"},
		{"timeout of nothing", func(f *fake) { f.rounds, f.options, f.timeout = 0, usual&^unix.WDIOF_SETTIMEOUT, 0 }, WatchdogTimeout, "is 0s, which is not from 1s to 1h0m0s"},
		{"timeout too long", func(f *fake) { f.rounds = 3601 }, WatchdogTimeout, "is 1h0m1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			c.change(f)
			d, err := open(config(), f.calls(), hardware())
			failure := wantFailure(t, err, c.want, c.words, path)
			if d != nil || failure.Armed == nil || !f.armed || failure.Armed.Timeout() != 0 {
				t.Fatalf("the devices are %v and %v, armed %t", d, failure.Armed, f.armed)
			}
			if pets := f.pets; failure.Armed.Pet() != nil || f.pets != pets+1 {
				t.Errorf("%d pets after %d", f.pets, pets)
			}
			if err := failure.Armed.Disarm(); err != nil || f.armed || f.open {
				t.Errorf("armed %t, open %t: %v", f.armed, f.open, err)
			}
		})
	}
}

// TestMayPet shows that no call pets the watchdog at a time at which it may not be petted.
func TestMayPet(t *testing.T) {
	for _, c := range []struct {
		name  string
		may   []bool
		fixed bool
		pets  int
		want  []string
	}{
		{"never", []bool{false}, false, 0, []string{"stat"}},
		{"no longer", []bool{true, false}, false, 1, []string{"stat", "open", "support"}},
		{"always", []bool{true, true}, false, 2, []string{"stat", "open", "support", "set timeout 10", "get timeout"}},
		{"with a fixed timeout", []bool{true}, true, 1, []string{"stat", "open", "support", "get timeout"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, given, may := newFake(), config(), c.may
			if c.fixed {
				f.options &^= unix.WDIOF_SETTIMEOUT
			}
			given.MayPet = func() bool {
				allowed := may[0]
				may = may[1:]
				return allowed
			}
			_, err := open(given, f.calls(), hardware())
			if c.may[len(c.may)-1] {
				if err != nil {
					t.Fatal(err)
				}
			} else if failure := wantFailure(t, err, MayNotPet, "is not allowed now", path); (failure.Armed != nil) != f.armed {
				t.Errorf("the device is %v, armed %t", failure.Armed, f.armed)
			}
			if len(may) != 0 || f.pets != c.pets {
				t.Errorf("%d answers are left, and %d pets", len(may), f.pets)
			}
			f.wantLog(t, c.want...)
		})
	}
}

// TestNoWayOutStaysArmed shows that a watchdog without magic close will do if nothing stops it.
func TestNoWayOutStaysArmed(t *testing.T) {
	f := newFake()
	f.options &^= unix.WDIOF_MAGICCLOSE
	f.noWayOut = true
	d := f.start(t, sysfs(f.identity, "1"))
	wantFailure(t, d.Disarm(), NoWayOut, path)
	f.wantLog(t, "stop")
}

func TestPet(t *testing.T) {
	f := newFake()
	d := f.start(t, hardware())
	if err := d.Pet(); err != nil {
		t.Fatal(err)
	}
	f.wantLog(t, "keep alive")
	f.errs["keep alive"] = unix.EIO
	if err := d.Pet(); !errors.Is(err, unix.EIO) {
		t.Errorf("the error is %v", err)
	}
	wantFailure(t, d.Pet(), WatchdogFailed, "petting", path)

	f = newFake()
	f.options &^= unix.WDIOF_KEEPALIVEPING
	d = f.start(t, hardware())
	if err := d.Pet(); err != nil {
		t.Fatal(err)
	}
	f.wantLog(t, `write "\x00"`)
	f.short = true
	wantFailure(t, d.Pet(), WatchdogFailed, "wrote 0 bytes of 1")
	f.errs[`write "\x00"`] = unix.EIO
	wantFailure(t, d.Pet(), WatchdogFailed, unix.EIO.Error())
}

func TestDisarm(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*fake)
		want   []string
	}{
		{"by request", func(*fake) {}, []string{"stop", `write "V"`, "close"}},
		{"by the close", func(f *fake) { f.noStop = true }, []string{`write "V"`, "close"}},
		{"by the close of another driver", func(f *fake) { f.errs["stop"] = unix.EOPNOTSUPP }, []string{"stop", `write "V"`, "close"}},
		{"stopped, and not announced", func(f *fake) { f.errs[`write "V"`] = unix.EIO }, []string{"stop", `write "V"`, "close"}},
		{"not told", func(f *fake) { f.errs["close"] = unix.EIO }, []string{"stop", `write "V"`, "close"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			c.change(f)
			d := f.start(t, hardware())
			if err := d.Disarm(); err != nil || f.armed || f.open {
				t.Fatalf("armed %t, open %t: %v", f.armed, f.open, err)
			}
			f.wantLog(t, c.want...)
			if err := d.Disarm(); err != nil {
				t.Errorf("again: %v", err)
			}
			wantFailure(t, d.Pet(), WatchdogFailed, "is disarmed")
			f.wantLog(t)
		})
	}
}

// TestOptionOfDriver shows that a driver which stops is not held to what sysfs shows.
func TestOptionOfDriver(t *testing.T) {
	f := newFake()
	d := f.start(t, sysfs(f.identity, "1"))
	if err := d.Disarm(); err != nil || f.armed {
		t.Errorf("armed %t: %v", f.armed, err)
	}
}

// TestNoMagicClose shows that the byte V is for the drivers alone that offer to know it.
func TestNoMagicClose(t *testing.T) {
	f := newFake()
	f.options &^= unix.WDIOF_MAGICCLOSE
	_, err := open(config(), f.calls(), hardware())
	armed := wantFailure(t, err, WatchdogStopsOnClose).Armed
	f.log = nil
	if err := armed.Disarm(); err != nil {
		t.Error(err)
	}
	f.wantLog(t, "stop", "close")
}

// TestNotDisarmed shows that a watchdog which can't be disarmed is still the caller's.
func TestNotDisarmed(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*fake)
		root   fs.FS
		want   Reason
	}{
		{"no way out", func(f *fake) { f.noWayOut = true }, hardware(), NoWayOut},
		{"no way out and no request", func(f *fake) { f.noWayOut, f.noStop = true, true }, sysfs("", "1"), NoWayOut},
		{"not stopped", func(f *fake) { f.errs["stop"] = unix.EIO }, hardware(), WatchdogFailed},
		{"not stopped for another reason", func(f *fake) { f.errs["stop"] = unix.EIO }, sysfs("", "1"), WatchdogFailed},
		{"not announced", func(f *fake) { f.errs[`write "V"`], f.noStop = unix.EIO, true }, hardware(), WatchdogFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			c.change(f)
			d := f.start(t, c.root)
			wantFailure(t, d.Disarm(), c.want, path)
			if !f.armed || !f.open {
				t.Fatalf("armed %t, open %t", f.armed, f.open)
			}
			if pets := f.pets; d.Pet() != nil || f.pets != pets+1 {
				t.Errorf("%d pets after %d", f.pets, pets)
			}
		})
	}
}

// TestConcurrently shows by the race detector that a device may be petted and disarmed at the same time.
func TestConcurrently(t *testing.T) {
	d := newFake().start(t, hardware())
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() { _ = d.Pet() })
		group.Go(func() { _ = d.Disarm() })
	}
	group.Wait()
}

// TestKernel makes the calls of the kernel on a device that is no watchdog.
func TestKernel(t *testing.T) {
	d, err := Open(Config{Path: "/dev/null", Timeout: time.Second, AllowVirtualMachine: true})
	failure := wantFailure(t, err, NoWatchdog, "identifying", "/dev/null")
	if d != nil || failure.Armed == nil || !errors.Is(err, unix.ENOTTY) {
		t.Fatalf("the device is %v and %v", d, failure.Armed)
	}
	null, k := failure.Armed, kernel()
	if err := null.Pet(); err != nil {
		t.Errorf("writing a byte: %v", err)
	}
	if _, err := k.number(null.fd, unix.WDIOC_GETTIMEOUT); !errors.Is(err, unix.ENOTTY) {
		t.Errorf("reading a number: %v", err)
	}
	if err := k.keepAlive(null.fd); !errors.Is(err, unix.ENOTTY) {
		t.Errorf("petting: %v", err)
	}
	flags, err := unix.FcntlInt(uintptr(null.fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("the flags of the file are %b: %v", flags, err)
	}
	if mode, err := unix.FcntlInt(uintptr(null.fd), unix.F_GETFL, 0); err != nil || mode&unix.O_ACCMODE != unix.O_WRONLY {
		t.Errorf("the file is open in the mode %b: %v", mode, err)
	}
	if err := null.Disarm(); err != nil {
		t.Errorf("closing: %v", err)
	}
	if _, err := unix.FcntlInt(uintptr(null.fd), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("the file is open: %v", err)
	}
	_, err = Open(Config{Path: "/dev/fettle-has-none", Timeout: time.Second, AllowVirtualMachine: true})
	wantFailure(t, err, NoWatchdog, "/dev/fettle-has-none")
}
