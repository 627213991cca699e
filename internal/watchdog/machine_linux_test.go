package watchdog

import (
	"errors"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"
)

func TestBootTime(t *testing.T) {
	before := uptime(t)
	first, err := BootTime()
	if after := uptime(t); err != nil || first < before || first >= after+10*time.Millisecond {
		t.Errorf("the node booted %s ago, after it was up for %s and before %s: %v", first, before, after, err)
	}
	if second, err := BootTime(); err != nil || second < first {
		t.Errorf("%s after %s: %v", second, first, err)
	}
	if at, err := readClock(1 << 20); err == nil || at != 0 {
		t.Errorf("a clock that doesn't exist shows %s", at)
	}
}

// uptime returns for how long the node is up, in hundredths of a second.
func uptime(t *testing.T) time.Duration {
	t.Helper()
	content, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	seconds, _, _ := strings.Cut(string(content), " ")
	up, err := time.ParseDuration(seconds + "s")
	if err != nil {
		t.Fatal(err)
	}
	return up
}

func TestBootID(t *testing.T) {
	id, err := BootID()
	if err != nil || !regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(id) {
		t.Errorf("the boot ID is %q: %v", id, err)
	}
	const valid = "0123abcd-4567-89ab-cdef-0123456789ab"
	for content, want := range map[string]string{
		valid:                                       valid,
		valid + "\n":                                valid,
		valid + "\n\n":                              "",
		" " + valid:                                 "",
		strings.ToUpper(valid):                      "",
		"0123abcd-4567-89ab-cdef-0123456789a":       "",
		"0123abcd-4567-89ab-cdef-0123456789abc":     "",
		"0123abcd-4567-89ab-cdef-0123456789ag":      "",
		"0123abcd-4567-89ab-cdef0123456789ab":       "",
		"0123abcd-4567-89ab-cdef-0123456789ab-abcd": "",
		"0123abcd456789abcdef0123456789ab":          "",
		"":                                          "",
	} {
		root := fstest.MapFS{"proc/sys/kernel/random/boot_id": file(content)}
		if got, err := bootID(root); got != want || (err == nil) != (want != "") {
			t.Errorf("the boot ID %q is read as %q, %v", content, got, err)
		}
	}
	if got, err := bootID(fstest.MapFS{}); !errors.Is(err, fs.ErrNotExist) || got != "" {
		t.Errorf("no boot ID is read as %q, %v", got, err)
	}
}

func TestVirtualMachine(t *testing.T) {
	const physical, virtual = "processor : 0\nflags\t\t: fpu sse\nbugs : hypervisor\n", "processor : 0\nflags\t\t: fpu hypervisor sse\n"
	const arm = "processor : 0\nFeatures : fp hypervisor\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  bool
		known bool
	}{
		{"nothing tells", map[string]string{}, false, false},
		{"a processor of another kind", map[string]string{"proc/cpuinfo": arm}, false, false},
		{"the processor says no", map[string]string{"proc/cpuinfo": physical}, false, true},
		{"the processor says yes", map[string]string{"proc/cpuinfo": virtual}, true, true},
		{"a word that begins so", map[string]string{"proc/cpuinfo": "flags : hypervisors\n"}, false, true},
		{"hardware by its makers", map[string]string{"sys/class/dmi/id/sys_vendor": "Dell Inc.\n"}, false, true},
		{"a physical host of a cloud", map[string]string{"sys/class/dmi/id/sys_vendor": "Microsoft Corporation\n"}, false, true},
		{"the maker", map[string]string{"proc/cpuinfo": physical, "sys/class/dmi/id/sys_vendor": "QEMU\n"}, true, true},
		{"the product", map[string]string{"proc/cpuinfo": arm, "sys/class/dmi/id/product_name": "Virtual Machine\n"}, true, true},
		{"the board", map[string]string{"sys/class/dmi/id/board_vendor": "Parallels ARM Virtual Platform\n"}, true, true},
		{"the firmware", map[string]string{"sys/class/dmi/id/bios_vendor": "innotek GmbH\n"}, true, true},
		{"a device tree", map[string]string{"proc/device-tree/model": "a board"}, false, true},
		{"a hypervisor in it", map[string]string{"proc/device-tree/hypervisor/compatible": "linux,kvm"}, true, true},
		{"Xen", map[string]string{"proc/cpuinfo": physical, "sys/hypervisor/type": "xen\n"}, true, true},
		{"empty files", map[string]string{"sys/hypervisor/type": "", "sys/class/dmi/id/sys_vendor": "\n"}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, content := range c.files {
				root[name] = file(content)
			}
			if got, err := virtualMachine(root); got != c.want || (err == nil) != c.known {
				t.Errorf("a virtual machine: %t, %v", got, err)
			}
		})
	}
	t.Run("makers", func(t *testing.T) {
		for _, name := range []string{
			"Apple Virtualization Generic Platform", "BHYVE", "Bochs", "KVM", "OpenStack Foundation", "OpenStack Nova", "Parallels Software",
			"QEMU", "Virtual Machine", "VirtualBox", "VMware, Inc.", "VMware7,1", "Xen", "innotek GmbH",
		} {
			if !ofVirtualMachine(name) {
				t.Errorf("%q is not known", name)
			}
		}
	})
	if _, err := IsVirtualMachine(); err != nil {
		t.Logf("here nothing tells: %v", err)
	}
}

// TestLockMemory needs the rights of root, or that little memory is in use.
func TestLockMemory(t *testing.T) {
	if err := lockMemory(1 << 20); err == nil {
		t.Error("the kernel knows no such flag")
	}
	if err := LockMemory(); err != nil {
		if os.Geteuid() == 0 {
			t.Errorf("locking: %v", err)
		}
		t.Skip(err)
	}
	defer func() {
		if err := unix.Munlockall(); err != nil {
			t.Error(err)
		}
	}()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if locked := regexp.MustCompile(`(?m)^VmLck:\s+([1-9]\d*) kB$`).Find(status); locked == nil {
		t.Errorf("no memory is locked: %s", status)
	}
	checkProgram(t)
}

// checkProgram checks that each page of this program is in memory.
func checkProgram(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	parts := regexp.MustCompile(`(?m)^[0-9a-f]+-[0-9a-f]+ r.*`).FindAllIndex(text, -1)
	found := 0
	for i, at := range parts {
		part := string(text[at[0]:])
		if i+1 < len(parts) {
			part = string(text[at[0]:parts[i+1][0]])
		}
		if first, _, _ := strings.Cut(part, "\n"); !strings.HasSuffix(first, " "+self) {
			continue
		}
		found++
		size, resident := regexp.MustCompile(`(?m)^Size: +(\d+) kB$`).FindStringSubmatch(part), regexp.MustCompile(`(?m)^Rss: +(\d+) kB$`).FindStringSubmatch(part)
		if size == nil || resident == nil || size[1] != resident[1] {
			t.Errorf("not all of the program is in memory: %s", part)
		}
	}
	if found < 3 {
		t.Errorf("the program has %d parts in memory", found)
	}
}

// TestMappings: the parts of a file are found by its whole name, but for parts that can't be read.
func TestMappings(t *testing.T) {
	const text = "00400000-00ada000 r-xp 00000000 fe:01 131 /fettle-agent\n" +
		"00ada000-00dd0000 r--p 006da000 fe:01 131                                /fettle-agent\n" +
		"00dd0000-00dd1000 ---p 009d0000 fe:01 131 /fettle-agent\n" +
		"00de0000-00de1000 r--p 009d0000 fe:01 132 /lib/fettle-agent\n" +
		"00df0000-02f10000 rw-p 00000000 00:00 0 \n" +
		"7ffd0000-7ffd1000 rw-p 00000000 00:00 0                          [stack]\nnonsense\n" +
		"02f20000-02f30000 r-xp 00000000 fe:01 /fettle-agent\n"
	want := []mapping{{0x400000, 0xada000}, {0xada000, 0xdd0000}}
	if got := mappings(text, "/fettle-agent"); !slices.Equal(got, want) {
		t.Errorf("they are %x, want %x", got, want)
	}
	if got := mappings("00400000-00401000 r-xp 00000000 fe:01 131 /with a space", "/with a space"); len(got) != 1 {
		t.Errorf("they are %x", got)
	}
}
