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
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fettle-io/fettle/test/debian"
	"github.com/fettle-io/fettle/test/guest"
)

// patience is how long a machine may take from its boot to its end.
const patience = 5 * time.Minute

// play boots a machine that plays a scene. It returns what the machine printed and the events of QEMU, once the machine has ended.
func play(t *testing.T, scene string) (console []string, events []string) {
	t.Helper()
	qemu, kernel := guest.QEMU(t), guest.UnpackKernel(t, "linux-image-amd64")
	folder := t.TempDir()
	modules := map[string][]byte{}
	for _, name := range []string{"watchdog", "i6300esb", "softdog"} {
		modules[name+".ko"] = kernel.Module(t, "drivers/watchdog/"+name)
	}
	initrd := guest.Initrd(t, folder, "./testdata/init", modules)
	// A descriptor and no path, since a path to a socket is short.
	ours, theirs := sockets(t)
	// It waits for the first command. Each instruction takes 128 ns of the machine's time, and waiting takes none of this machine's.
	options := append(guest.Options(filepath.Join(folder, "console")),
		"-S", "-icount", "shift=7,sleep=off", "-rtc", "clock=vm", "-device", "i6300esb",
		"-chardev", "socket,id=qmp,fd=3", "-mon", "chardev=qmp,mode=control",
		"-kernel", kernel.Image, "-initrd", initrd, "-append", "console=ttyS0 quiet panic=-1 -- "+scene)
	command := exec.Command(qemu, options...)
	command.ExtraFiles = []*os.File{theirs}
	ended := debian.Start(t, command)
	theirs.Close()

	events = control(t, ours)
	<-ended
	content, err := os.ReadFile(filepath.Join(folder, "console"))
	if err != nil {
		t.Fatal(err)
	}
	console = strings.Split(strings.ReplaceAll(strings.TrimSpace(string(content)), "\r", ""), "\n")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the events: %q, the console:\n%s", events, strings.Join(console, "\n"))
		}
	})
	return console, events
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

// control starts the machine, and returns the events of QEMU until the machine has ended.
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
		if m.Event != "" && m.Event != "RESUME" && m.Event != "STOP" {
			events = append(events, m.Event+" "+string(m.Data))
		}
	}
}

var named = regexp.MustCompile(`^([a-z ]+): (.*)$`)

// times returns the times that lines of a name have.
func times(t *testing.T, console []string, name string) []time.Duration {
	t.Helper()
	var all []time.Duration
	for _, line := range console {
		if parts := named.FindStringSubmatch(line); parts != nil && parts[1] == name {
			d, err := time.ParseDuration(parts[2])
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		t.Fatalf("no line begins with %q", name)
	}
	return all
}
