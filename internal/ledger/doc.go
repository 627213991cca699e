// Package ledger keeps repairs as Repair objects in the API server. It renders what the core has
// decided and reads it back; it decides nothing.
package ledger
