package watchdog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// BootTime returns the time since the node booted, with the time that it slept.
func BootTime() (time.Duration, error) { return readClock(unix.CLOCK_BOOTTIME) }

func readClock(clock int32) (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("reading the clock: %w", err)
	}
	return time.Duration(t.Nano()), nil
}

// BootID returns the UUID that the kernel has chosen for this boot.
func BootID() (string, error) { return bootID(os.DirFS("/")) }

func bootID(root fs.FS) (string, error) {
	text, err := readText(root, "proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	id := strings.TrimSuffix(text, "\n")
	if !isUUID(id) {
		return "", fmt.Errorf("the boot ID %.40q is no UUID", id)
	}
	return id, nil
}

// isUUID reports whether a text is a UUID in lower case.
func isUUID(text string) bool {
	shape := strings.Map(func(r rune) rune {
		if strings.ContainsRune("0123456789abcdef", r) {
			return '0'
		}
		return r
	}, text)
	return shape == "00000000-0000-0000-0000-000000000000"
}

// LockMemory keeps in memory the whole program, the other pages that this process has used, and each further page once it is used. A node that is
// cut off may reach its disk no more. Only then it runs the code that decides whether it goes on. Other pages are not read in advance:
// the memory that Go reserves is many times larger than what a small program uses.
func LockMemory() error {
	if err := lockMemory(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT); err != nil {
		return err
	}
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("finding where this program is in memory: %w", err)
	}
	for _, m := range mappings(string(maps), self) {
		if _, _, errno := unix.Syscall(unix.SYS_MLOCK, m.from, m.to-m.from, 0); errno != 0 {
			return fmt.Errorf("locking this program in memory: %w", errno)
		}
	}
	return nil
}

// mapping is the addresses at which a part of a file is in memory.
type mapping struct{ from, to uintptr }

// mappings returns where a file is in memory, by the text of /proc/self/maps. Pages that can't be read are left out, since the kernel loads none of
// them.
func mappings(text, file string) []mapping {
	var all []mapping
	for line := range strings.Lines(text) {
		var m mapping
		var access, offset, device, name string
		var inode uint64
		_, err := fmt.Sscanf(line, "%x-%x %s %s %s %d %s", &m.from, &m.to, &access, &offset, &device, &inode, &name)
		if err == nil && strings.HasPrefix(access, "r") && strings.HasSuffix(strings.TrimSuffix(line, "\n"), " "+file) {
			all = append(all, m)
		}
	}
	return all
}

func lockMemory(flags int) error {
	if err := unix.Mlockall(flags); err != nil {
		return fmt.Errorf("locking the memory: %w", err)
	}
	return nil
}

// IsVirtualMachine reports whether the node is a virtual machine. An error means that nothing tells.
func IsVirtualMachine() (bool, error) { return virtualMachine(os.DirFS("/")) }

// errNothingTells is returned where no evidence is found.
var errNothingTells = errors.New("neither the processor, nor the firmware's tables, nor the device tree tells")

// virtualMachine looks at the evidence. Each piece may say that the node is a virtual machine, and at least one has to be there to say that it is
// none. The first is the processor, which has the flag "hypervisor" below each hypervisor that doesn't hide.
func virtualMachine(root fs.FS) (bool, error) {
	flags := processorFlags(root)
	names := firmwareNames(root)
	tree := exists(root, "proc/device-tree")
	switch {
	case slices.Contains(flags, "hypervisor"),
		slices.ContainsFunc(names, ofVirtualMachine),
		exists(root, "proc/device-tree/hypervisor"),
		readLine(root, "sys/hypervisor/type") != "":
		return true, nil
	case len(flags) == 0 && len(names) == 0 && !tree:
		return false, errNothingTells
	}
	return false, nil
}

// processorFlags returns the flags of the first processor. Only x86 has a line of that name.
func processorFlags(root fs.FS) []string {
	text, _ := readText(root, "proc/cpuinfo")
	for line := range strings.Lines(text) {
		name, flags, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "flags" {
			return strings.Fields(flags)
		}
	}
	return nil
}

// firmwareNames returns how the firmware names the maker of the system and the system.
func firmwareNames(root fs.FS) []string {
	var names []string
	for _, name := range [...]string{"sys_vendor", "product_name", "board_vendor", "bios_vendor"} {
		if text := readLine(root, "sys/class/dmi/id/"+name); text != "" {
			names = append(names, text)
		}
	}
	return names
}

// makers are how names in the firmware of virtual machines begin. Physical hosts of clouds have some of the makers too, but other products.
var makers = [...]string{
	"Apple Virtualization", "BHYVE", "Bochs", "KVM", "OpenStack", "Parallels", "QEMU", "Virtual Machine", "VirtualBox", "VMware", "Xen", "innotek",
}

// ofVirtualMachine reports whether a name in the firmware is one of virtual machines.
func ofVirtualMachine(name string) bool {
	return slices.ContainsFunc(makers[:], func(maker string) bool { return strings.HasPrefix(name, maker) })
}

// exists reports whether there is a file.
func exists(root fs.FS, name string) bool {
	_, err := fs.Stat(root, name)
	return err == nil
}
