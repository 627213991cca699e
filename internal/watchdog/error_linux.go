package watchdog

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Error is a failure with its reason.
type Error struct {
	Reason Reason
	// Armed is set if Open has opened the watchdog and found only then that it won't do. The caller owns it, and disarms it unless a promise
	// of this boot may rest on it. Until it is disarmed the caller may pet it. Without either the node is reset.
	Armed *Device

	text string
	err  error
}

// Error returns what went wrong.
func (e *Error) Error() string {
	if e.err == nil {
		return e.text
	}
	return e.text + ": " + e.err.Error()
}

// Unwrap returns the error of the kernel, or nil.
func (e *Error) Unwrap() error { return e.err }

// openingFailed returns why a watchdog can't be opened.
func openingFailed(path string, err error) *Error {
	reason := WatchdogFailed
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		reason = NoWatchdog
	case errors.Is(err, unix.EBUSY):
		reason = WatchdogBusy
	case errors.Is(err, fs.ErrPermission):
		reason = WatchdogForbidden
	}
	return &Error{Reason: reason, text: "opening the watchdog " + path, err: err}
}

// unsupported reports whether a driver doesn't know a request.
func unsupported(err error) bool {
	return errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP)
}
