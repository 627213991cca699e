// Package faults tests that Fettle keeps its promises when what it stands on fails: real processes
// against a real API server, and a witness of their own for every test, which sees all machines and
// repairs, and reads the audit log afterwards.
package faults
