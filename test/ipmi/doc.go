// Package ipmi tests the power of hosts behind BMCs that others wrote: Debian's ipmi_sim, with a script for a host, and with a
// machine of QEMU that runs Debian's kernel. The tests get these programs themselves. Where they can't, they are skipped.
package ipmi
