// The first process of the guest. It plays a scene, whose name the kernel passes on, with the watchdogs of the machine, and prints what it sees
// to the console. A scene ends with the machine.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fettle-io/fettle/internal/watchdog"
)

const (
	hardware = "/dev/watchdog0"
	software = "/dev/watchdog1"
	legacy   = "/dev/watchdog"
	// timeout is what the watchdogs are set to.
	timeout = 10 * time.Second
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "holder" {
		hold()
	}
	mount("proc", "proc", "/proc")
	mount("sysfs", "sysfs", "/sys")
	mount("devtmpfs", "devtmpfs", "/dev")
	load("watchdog", "")
	load("i6300esb", "")
	scenes := map[string]func(){"stopped": stopped, "killed": killed, "commanded": commanded}
	scene := scenes[os.Args[len(os.Args)-1]]
	if scene == nil {
		fail("the scene is one of those", fmt.Errorf("%q", os.Args))
	}
	scene()
}

// stopped opens the watchdog, disarms it, and opens it again to let it fire.
func stopped() {
	refused("opening it in a virtual machine", watchdog.Config{Path: hardware, Timeout: timeout})
	say("state", read("/sys/class/watchdog/watchdog0/state"))
	d := open(hardware)
	say("identity", d.Identity())
	say("timeout", fmt.Sprint(d.Timeout().Seconds(), " seconds"))
	say("software", fmt.Sprint(d.Software()))
	refused("opening it again", allowed(hardware))
	refused("opening it by its other name", allowed(legacy))
	pet(d, 3*timeout)
	say("petted for", "3 timeouts")
	if err := d.Disarm(); err != nil {
		fail("disarming", err)
	}
	say("state", read("/sys/class/watchdog/watchdog0/state"))
	wait(3 * timeout)
	say("disarmed for", "3 timeouts")
	d = open(legacy)
	pet(d, timeout)
	fire()
}

// killed has another process open the watchdog. That process is killed shortly before the watchdog would fire.
func killed() {
	holder := exec.Command("/proc/self/exe", "holder")
	out, err := holder.StdoutPipe()
	if err != nil {
		fail("a pipe", err)
	}
	if err := holder.Start(); err != nil {
		fail("starting the holder", err)
	}
	if n, err := out.Read(make([]byte, 1)); n != 1 {
		fail("waiting for the holder", err)
	}
	say("last pet", now().String())
	wait(timeout * 8 / 10)
	if err := holder.Process.Kill(); err != nil {
		fail("killing the holder", err)
	}
	_ = holder.Wait()
	say("state", read("/sys/class/watchdog/watchdog0/state"))
	fire()
}

// hold opens the watchdog, tells it and waits.
func hold() {
	open(hardware)
	fmt.Print("o")
	wait(time.Hour)
}

// commanded has a watchdog of software that can't be disarmed, and then resets the machine.
func commanded() {
	load("softdog", "nowayout=1")
	one := allowed(software)
	one.AllowSoftware = false
	refused("opening the one of software", one)
	say("state", read("/sys/class/watchdog/watchdog1/state"))
	d := open(software)
	say("identity", d.Identity())
	say("software", fmt.Sprint(d.Software()))
	err := d.Disarm()
	say("disarming", reason(err))
	pet(d, 3*timeout)
	say("petted for", "3 timeouts")

	if err := watchdog.LockMemory(); err != nil {
		fail("locking the memory", err)
	}
	for line := range strings.Lines(read("/proc/self/status")) {
		if name, size, _ := strings.Cut(line, ":"); name == "VmLck" {
			say("locked any memory", fmt.Sprint(strings.TrimSpace(size) != "0 kB"))
		}
	}
	if err := os.WriteFile("/proc/sys/kernel/sysrq", []byte("0"), 0); err != nil {
		fail("restricting sysrq", err)
	}
	s, err := watchdog.OpenSysrq()
	if err != nil {
		fail("opening sysrq", err)
	}
	go fire()
	wait(timeout / 10)
	say("resetting", now().String())
	fail("resetting", s.Reset())
}

// fire shows the time until the machine is reset.
func fire() {
	for {
		say("runs", now().String())
		wait(timeout / 100)
	}
}

// allowed is a configuration that allows everything.
func allowed(path string) watchdog.Config {
	return watchdog.Config{Path: path, Timeout: timeout, AllowVirtualMachine: true, AllowSoftware: true}
}

func open(path string) *watchdog.Device {
	d, err := watchdog.Open(allowed(path))
	if err != nil {
		fail("opening "+path, err)
	}
	return d
}

// refused shows why a watchdog isn't opened.
func refused(what string, c watchdog.Config) {
	d, err := watchdog.Open(c)
	if err == nil {
		fail(what, fmt.Errorf("it is open: %v", d))
	}
	say(what, reason(err))
}

// reason shows the reason of an error, and whether the watchdog was opened.
func reason(err error) string {
	failure, ok := errors.AsType[*watchdog.Error](err)
	if !ok {
		return fmt.Sprint(err)
	}
	if failure.Armed != nil {
		return string(failure.Reason) + " and armed"
	}
	return string(failure.Reason)
}

// pet pets a watchdog for some time, and shows when it did so last.
func pet(d *watchdog.Device, during time.Duration) {
	var last time.Duration
	for begun := now(); last < begun+during; wait(timeout / 4) {
		last = now()
		if err := d.Pet(); err != nil {
			fail("petting", err)
		}
	}
	say("last pet", last.String())
}

func now() time.Duration {
	t, err := watchdog.BootTime()
	if err != nil {
		fail("reading the clock", err)
	}
	return t
}

func wait(d time.Duration) { time.Sleep(d) }

func say(what, value string) { fmt.Printf("%s: %s\n", what, strings.TrimSpace(value)) }

// fail shows what went wrong and ends the machine: the kernel doesn't outlive its first process.
func fail(what string, err error) {
	say("failed", fmt.Sprintf("%s: %v", what, err))
	os.Exit(1)
}

func read(name string) string {
	content, err := os.ReadFile(name)
	if err != nil {
		fail("reading", err)
	}
	return string(content)
}

func mount(source, kind, folder string) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		fail("making a folder", err)
	}
	if err := unix.Mount(source, folder, kind, 0, ""); err != nil {
		fail("mounting "+kind, err)
	}
}

// load loads a module of the kernel.
func load(name, parameters string) {
	file, err := os.Open("/" + name + ".ko")
	if err != nil {
		fail("finding a module", err)
	}
	if err := unix.FinitModule(int(file.Fd()), parameters, 0); err != nil {
		fail("loading the module "+name, err)
	}
}
