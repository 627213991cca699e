package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// eachSecond calls a function each second of CLOCK_BOOTTIME until the context ends. That clock goes on while the node is suspended, so it calls the
// function at once when the node wakes. The timers of Go stand still meanwhile. An error says that there is no such timer.
func eachSecond(ctx context.Context, do func()) error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("making a timer of CLOCK_BOOTTIME: %w", err)
	}
	timer := os.NewFile(uintptr(fd), "timer of CLOCK_BOOTTIME")
	defer func() { _ = timer.Close() }()
	second := unix.NsecToTimespec(int64(time.Second))
	if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: second, Value: second}, nil); err != nil {
		return fmt.Errorf("starting a timer of CLOCK_BOOTTIME: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = timer.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for expirations := make([]byte, 8); ; {
		if _, err := timer.Read(expirations); ctx.Err() != nil {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading a timer of CLOCK_BOOTTIME: %w", err)
		}
		do()
	}
}
