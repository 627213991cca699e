package watchdog

import (
	"fmt"
	"io"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// class is what sysfs shows of a watchdog without opening it. Its zero value is that of a watchdog which isn't there: sysfs has only those
// of the kernel's watchdog framework.
type class struct {
	identity string
	// noWayOut is set if the watchdog can't be stopped once it is armed.
	noWayOut bool
}

// The major and minor number of /dev/watchdog. The framework has it in addition to /dev/watchdog0, unless another driver came first.
const (
	legacyMajor = 10
	legacyMinor = 130
)

// readClass returns what sysfs shows of the watchdog with a device number.
func readClass(root fs.FS, device uint64) class {
	major, minor := unix.Major(device), unix.Minor(device)
	folder := fmt.Sprintf("sys/dev/char/%d:%d", major, minor)
	if major == legacyMajor && minor == legacyMinor {
		folder = "sys/class/watchdog/watchdog0"
	}
	return class{
		identity: readLine(root, folder+"/identity"),
		noWayOut: readLine(root, folder+"/nowayout") == "1",
	}
}

// software reports whether the name of a watchdog is that of one which the kernel plays. Of the drivers of Linux that is softdog; in user-mode
// Linux there is another. A watchdog with another name counts as hardware. Drivers for hardware have many names, and not all of them are
// below the device that they drive. A watchdog without a name counts as software, since nothing says otherwise.
func software(identity string) bool {
	name := strings.ToLower(identity)
	return name == "" || strings.Contains(name, "software") || strings.Contains(name, "softdog") || strings.HasPrefix(name, "uml ")
}

// mostText is how much of a file is read. The first processor of /proc/cpuinfo needs some kilobytes.
const mostText = 64 << 10

// readLine returns the first line of a file without the space around it, or nothing if the file can't be read.
func readLine(root fs.FS, name string) string {
	text, _ := readText(root, name)
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}

// readText returns the beginning of a file.
func readText(root fs.FS, name string) (string, error) {
	file, err := root.Open(name)
	if err != nil {
		return "", fmt.Errorf("reading what the kernel shows: %w", err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	content, err := io.ReadAll(io.LimitReader(file, mostText))
	if err != nil {
		return "", fmt.Errorf("reading what the kernel shows: %w", err)
	}
	return string(content), nil
}
