// Package guest boots machines of QEMU for tests, with Debian's kernel and a program of Go as its only process. The machines are emulated in
// software, since KVM may be missing. Where Debian's packages can't be had, the test is skipped and says why.
package guest
