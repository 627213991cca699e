// Package workload tests connections to workload clusters against a real API server: the objects that they read, how soon they
// notice an outage, and the resources that they leave behind.
package workload
