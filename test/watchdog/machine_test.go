package watchdog

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fettle-io/fettle/test/debian"
	"github.com/fettle-io/fettle/test/guest"
)

// patience is how long a machine may take from its boot to its end.
const patience = 5 * time.Minute

// programs are what machines boot with.
type programs struct {
	qemu   string
	kernel guest.Kernel
	initrd string
}

// get gets the programs, or skips the test.
func get(t *testing.T) programs {
	t.Helper()
	p := programs{qemu: guest.QEMU(t), kernel: guest.UnpackKernel(t, "linux-image-amd64")}
	modules := map[string][]byte{}
	for _, name := range []string{"watchdog", "i6300esb", "softdog"} {
		modules[name+".ko"] = p.kernel.Module(t, "drivers/watchdog/"+name)
	}
	p.initrd = guest.Initrd(t, t.TempDir(), "./testdata/init", modules)
	return p
}

// scene is what happened on a machine until it ended.
type scene struct {
	// said are the lines that the machine printed, besides those with times.
	said []string
	// times are the times of the machine that it printed, by their names.
	times map[string][]time.Duration
	// events are those of QEMU.
	events []string
}

// play boots a machine that plays a scene, and returns what happened once the machine has ended.
func (p programs) play(t *testing.T, name string) scene {
	t.Helper()
	console := filepath.Join(t.TempDir(), "console")
	ours, theirs := sockets(t)
	// The machine waits for a command. Each of its instructions takes eight nanoseconds of its time. While it has none to carry out, its time
	// goes on at once.
	options := append(guest.Options(console),
		"-S", "-icount", "shift=3,sleep=off", "-rtc", "clock=vm", "-device", "i6300esb",
		"-chardev", "socket,id=qmp,fd=3", "-mon", "chardev=qmp,mode=control",
		"-kernel", p.kernel.Image, "-initrd", p.initrd, "-append", "console=ttyS0 quiet loglevel=0 panic=-1 -- "+name)
	command := exec.Command(p.qemu, options...)
	command.ExtraFiles = []*os.File{theirs}
	ended := debian.Start(t, command)
	theirs.Close()

	s := scene{times: map[string][]time.Duration{}, events: control(t, ours)}
	<-ended
	content, err := os.ReadFile(console)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the events: %q, the console:\n%s", s.events, content)
		}
	})
	for _, line := range named.FindAllStringSubmatch(strings.ReplaceAll(string(content), "\r", ""), -1) {
		if at, err := time.ParseDuration(line[2]); err == nil {
			s.times[line[1]] = append(s.times[line[1]], at)
		} else {
			s.said = append(s.said, line[0])
		}
	}
	return s
}

// named are the lines of the machine's program. Those of its kernel begin with capital letters and brackets.
var named = regexp.MustCompile(`(?m)^([a-z ]+): (.*)$`)

// want compares what the machine printed, and the events.
func (s scene) want(t *testing.T, said, events []string) {
	t.Helper()
	if !slices.Equal(s.said, said) {
		t.Errorf("the machine printed %q, want %q", s.said, said)
	}
	if !slices.Equal(s.events, events) {
		t.Errorf("the events are %q, want %q", s.events, events)
	}
}

// between returns the time from the last line of a name to the last line of the console that says that the machine runs.
func (s scene) between(t *testing.T, name string) time.Duration {
	t.Helper()
	from, runs := s.times[name], s.times["runs"]
	if len(from) == 0 || len(runs) == 0 {
		t.Fatalf("the machine printed %d times of %q, and %d times that it runs", len(from), name, len(runs))
	}
	return runs[len(runs)-1] - from[len(from)-1]
}

// sockets returns two ends of a connection.
func sockets(t *testing.T) (ours net.Conn, theirs *os.File) {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(pair[0]), "ours")
	defer file.Close()
	if ours, err = net.FileConn(file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	return ours, os.NewFile(uintptr(pair[1]), "theirs")
}

// control starts the machine, and returns the events of QEMU until the machine has ended. It leaves out that the machine goes on and stops.
func control(t *testing.T, qmp net.Conn) []string {
	t.Helper()
	if err := qmp.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(qmp, `{"execute":"qmp_capabilities"}{"execute":"cont"}`); err != nil {
		t.Fatal(err)
	}
	var events []string
	for decoder := json.NewDecoder(bufio.NewReader(qmp)); ; {
		var m struct {
			Event string          `json:"event"`
			Data  json.RawMessage `json:"data"`
			Error json.RawMessage `json:"error"`
		}
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return events
		}
		if err != nil || m.Error != nil {
			t.Fatalf("after the events %q QEMU said %s: %v", events, m.Error, err)
		}
		switch m.Event {
		case "", "RESUME", "STOP":
		default:
			events = append(events, m.Event+" "+string(m.Data))
		}
	}
}
