// Package workload tests connections to workload clusters against a real API server: what they take in, how soon they
// notice that it is gone, and what they leave behind.
package workload
