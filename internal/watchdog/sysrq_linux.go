package watchdog

import (
	"errors"
	"os"
)

// Sysrq resets the node through the kernel. The setting kernel.sysrq doesn't restrict it.
type Sysrq struct {
	file *os.File
}

// OpenSysrq opens /proc/sysrq-trigger, so that no file has to be found when the node is to be reset.
func OpenSysrq() (*Sysrq, error) { return openSysrq("/proc/sysrq-trigger") }

func openSysrq(path string) (*Sysrq, error) {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, &Error{Reason: NoSysrq, text: "opening the way to reset the node", err: err}
	}
	return &Sysrq{file: file}, nil
}

// errGoesOn is returned where the kernel took the command, and the node goes on.
var errGoesOn = errors.New("the node goes on")

// Reset resets the node at once, and writes nothing to its disks before. It returns only if that failed.
func (s *Sysrq) Reset() error {
	_, err := s.file.WriteString("b")
	if err == nil {
		err = errGoesOn
	}
	return &Error{Reason: NoSysrq, text: "resetting the node", err: err}
}
