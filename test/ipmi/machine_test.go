package ipmi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/power"
	"github.com/fettle-io/fettle/test/debian"
	"github.com/fettle-io/fettle/test/guest"
)

// TestMachine fences a machine that runs Debian's kernel, by the steps of package fencing. Its BMC starts and ends QEMU. The machine
// prints the boot ID of its kernel to its console as long as it runs.
func TestMachine(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	before := m.boots(t, "")
	m.runsOn(t)
	process := m.process(t)

	off := m.fence(t, fencing.Record{Phase: fencing.PoweringOff, NodeUID: "uid", BootID: before, Attempt: 1}, fencing.Releasing)
	if off.Proof.Kind != fencing.PowerOff {
		t.Fatalf("the proof is %+v", off.Proof)
	}
	if _, err := os.Stat(process); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the machine is proven to be off, and its process %s is there: %v", process, err)
	}
	if last := m.lastLine(t); last.After(off.Proof.At) || off.Proof.At.Sub(last) < 4*time.Second {
		t.Errorf("the last line of the console is of %s, and the proof of %s", last, off.Proof.At)
	}

	off.Phase, off.Since = fencing.PoweringOn, time.Now()
	m.fence(t, off, fencing.Booting)
	after := m.boots(t, before)
	t.Logf("boot %s, off at %s, boot %s", before, off.Proof.At.Format(time.TimeOnly), after)
	m.runsOn(t)
}

// machine is a machine of QEMU and its BMC, which speaks with it by the protocol of OpenIPMI.
type machine struct {
	*simulator

	power *power.Host
}

// newMachine starts a machine.
func newMachine(t *testing.T) *machine {
	t.Helper()
	debian.Install(t, "openipmi", "/usr/bin/ipmi_sim")
	qemu, kernel := guest.QEMU(t), guest.UnpackKernel(t, "linux-image-cloud-amd64")
	folder := t.TempDir()
	initrd := guest.Initrd(t, folder, "./testdata/init", nil)
	ip, channel := freeAddress(t, "tcp")
	in := func(name string) string { return filepath.Join(folder, name) }
	// QEMU ends with ipmi_sim.
	command := append([]string{"setpriv --pdeathsig KILL", qemu}, guest.Options(in("console"))...)
	command = append(command,
		"-pidfile "+in("pid"), fmt.Sprintf("-chardev socket,id=bmc,host=%s,port=%d,reconnect=1", ip, channel),
		"-device ipmi-bmc-extern,id=bmc0,chardev=bmc -device isa-ipmi-kcs,bmc=bmc0",
		"-kernel", kernel.Image, "-initrd", initrd, "-append 'console=ttyS0 quiet'",
	)
	m := &machine{}
	m.simulator = startSimulator(t, folder, fmt.Sprintf("serial 15 %s %d codec VM", ip, channel),
		fmt.Sprintf("startcmd %q", strings.Join(command, " ")), "startnow true")
	m.power = m.host(t, m.address, operator, password)
	t.Cleanup(func() {
		if console, err := os.ReadFile(in("console")); t.Failed() {
			t.Logf("the console: %s (%v)", console, err)
		}
	})
	return m
}

var line = regexp.MustCompile(`(?m)^boot ([0-9a-f-]{36})\r?$`)

// boots waits until the machine prints another boot ID, and returns it.
func (m *machine) boots(t *testing.T, before string) string {
	t.Helper()
	id := before
	eventually(t, "the machine boots", func() error {
		console, err := os.ReadFile(filepath.Join(m.folder, "console"))
		if err != nil {
			return err
		}
		if lines := line.FindAllSubmatch(console, -1); len(lines) > 0 {
			id = string(lines[len(lines)-1][1])
		}
		if id == before {
			return fmt.Errorf("the console has %d bytes, and the last boot is %q", len(console), id)
		}
		return nil
	})
	return id
}

// runsOn waits until the console has grown, and reads the power.
func (m *machine) runsOn(t *testing.T) {
	t.Helper()
	began := m.lastLine(t)
	eventually(t, "the machine runs", func() error {
		if last := m.lastLine(t); !last.After(began) {
			return fmt.Errorf("the last line of its console is of %s", last)
		}
		return nil
	})
	wantState(t, m.power, fencing.IsOn)
}

// lastLine returns when the console was written to.
func (m *machine) lastLine(t *testing.T) time.Time {
	t.Helper()
	info, err := os.Stat(filepath.Join(m.folder, "console"))
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

// process returns the folder that the kernel has for the process of the machine as long as there is one.
func (m *machine) process(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(m.folder, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		t.Fatal(err)
	}
	folder := fmt.Sprintf("/proc/%d", pid)
	if name, err := os.ReadFile(folder + "/comm"); err != nil || !strings.HasPrefix(string(name), "qemu") {
		t.Fatalf("process %d is %q, %v", pid, name, err)
	}
	return folder
}

// fence takes the steps of a fencing until it is in a phase, and returns its record. Its node is silent.
func (m *machine) fence(t *testing.T, r fencing.Record, until fencing.Phase) fencing.Record {
	t.Helper()
	config := fencing.Config{Limits: fencing.Limits{PowerOff: patience, Release: patience, PowerOn: patience, Boot: patience}}
	node := &fencing.Node{Exists: true, UID: r.NodeUID, BootID: r.BootID, Tainted: true}
	if r.Since.IsZero() {
		r.Since = time.Now()
	}
	var known fencing.Power
	for r.Phase != until {
		step := fencing.Next(config, r, fencing.Facts{Now: time.Now(), Begun: time.Now(), Node: node, Power: known})
		switch step.Kind { //nolint:exhaustive // in these phases there are no others
		case fencing.CommandOff:
			known = known.CommandedOff(m.command(t, power.TurnOff))
		case fencing.CommandOn:
			known = known.CommandedOn(m.command(t, power.TurnOn))
		case fencing.ReadPower:
			reading, failure := m.power.Read(t.Context())
			if failure.Failed() {
				t.Fatalf("reading the power: %s", failure)
			}
			known = known.Observe(reading)
		case fencing.Wait:
			<-time.After(time.Until(step.Until))
		case fencing.Write:
			r = step.Record
		default:
			t.Fatalf("in phase %s the step is %+v", r.Phase, step)
		}
		if r.Phase.Final() || r.Phase == fencing.Preparing {
			t.Fatalf("the fencing is %+v, with the power %+v", r, known)
		}
	}
	return r
}

func (m *machine) command(t *testing.T, command power.Command) time.Time {
	t.Helper()
	at, failure := m.power.Command(t.Context(), command, "")
	if failure.Failed() {
		t.Fatalf("command %v: %s", command, failure)
	}
	return at
}
