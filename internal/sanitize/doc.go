// Package sanitize makes external text safe to show. Every text that Fettle shows passes through it, in statuses,
// events, logs, tables and documents. It is pure.
package sanitize
