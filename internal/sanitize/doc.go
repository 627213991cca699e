// Package sanitize makes text that comes from outside fit to be shown to people. Every text that Fettle shows
// passes through it: in statuses, events, logs, tables and documents. It is pure.
package sanitize
