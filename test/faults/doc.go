// Package faults tests that Fettle keeps its promises when its surroundings fail: real processes against a real API
// server. Every test has a monitor, which watches all machines and repairs, and reads the audit log afterwards.
package faults
