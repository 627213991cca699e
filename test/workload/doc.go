// Package workload tests connections to workload clusters against a real API server: what they read, how soon they
// notice an outage, and what they leave behind.
package workload
