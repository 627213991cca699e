// Package watchdog tests internal/watchdog on a machine that has a watchdog: QEMU's i6300ESB, with Debian's kernel and its driver. The tests get
// these programs themselves. Where they can't, they are skipped.
//
// The time of the machine passes by its instructions, and at once where it waits. So the tests measure times by the clock of the machine alone.
package watchdog
