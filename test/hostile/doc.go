// Package hostile tests what attackers can do through Fettle: a tenant of a namespace, a compromised kubelet, a
// compromised workload cluster, a reference to a template, a forged Repair, and a flood. It runs the real binary
// against a real API server. docs/threat-model.md names the test of each defence.
package hostile
