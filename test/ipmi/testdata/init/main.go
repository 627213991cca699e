// The only process of the guest: it prints the boot ID of its kernel to the console, again and again.
package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := os.Mkdir("/proc", 0o555); err != nil {
		fmt.Println("making /proc:", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		fmt.Println("mounting /proc:", err)
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		fmt.Println("reading the boot ID:", err)
	}
	for {
		fmt.Println("boot", strings.TrimSpace(string(id)))
		time.Sleep(100 * time.Millisecond)
	}
}
