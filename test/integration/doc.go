// Package integration tests Fettle as a user runs it: the real binary, under its own rights, against
// a real API server.
package integration
