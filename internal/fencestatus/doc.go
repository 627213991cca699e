// Package fencestatus writes the statuses of FencePolicies, and measures which nodes promise to fence themselves. Package fencepolicy decides
// what the statuses say. This package reads the facts, and writes a status that has changed.
//
// Agents write their Leases every few seconds, so watching these would cost a message for each write. This package lists them now and then, and
// the less often the more there are.
package fencestatus
