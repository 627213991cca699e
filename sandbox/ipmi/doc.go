// Package ipmi lets the BMC of a host answer by IPMI 2.0 over LAN too, with the cipher suites 17 and 3. It is the BMC of go-ipmi.
// Tests drive it with Debian's ipmitool and fence_ipmilan.
package ipmi
