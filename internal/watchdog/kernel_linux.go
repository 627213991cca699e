package watchdog

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// calls are the calls of the kernel that a watchdog is driven by.
type calls struct {
	// stat returns what is known of a file.
	stat func(path string, into *unix.Stat_t) error
	// open opens a file for writing.
	open func(path string) (int, error)
	// support returns the name and the abilities of a watchdog.
	support func(fd int) (*unix.WatchdogInfo, error)
	// number makes a request with a number as the answer. The request of set has a number itself.
	number func(fd int, request uint) (uint32, error)
	set    func(fd int, request uint, value int) error
	// keepAlive pets a watchdog.
	keepAlive func(fd int) error
	write     func(fd int, content []byte) (int, error)
	close     func(fd int) error
}

// kernel returns the calls of the kernel. There is no os.File, so that the garbage collector closes nothing.
func kernel() calls {
	return calls{
		stat:      unix.Stat,
		open:      func(path string) (int, error) { return unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0) },
		support:   unix.IoctlGetWatchdogInfo,
		number:    unix.IoctlGetUint32,
		set:       unix.IoctlSetPointerInt,
		keepAlive: unix.IoctlWatchdogKeepalive,
		write:     unix.Write,
		close:     unix.Close,
	}
}

// writeByte writes a single byte.
func (c calls) writeByte(fd int, content byte) error {
	n, err := c.write(fd, []byte{content})
	if err == nil && n != 1 {
		return fmt.Errorf("wrote %d bytes of 1", n)
	}
	return err
}
