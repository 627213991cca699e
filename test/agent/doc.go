// Package agent tests the agent of nodes that fence themselves against a real API server, with a stand-in for the watchdog.
package agent
