// Package writers detects another controller that writes the status of the same health check.
//
// In metadata.managedFields, the API server records which field manager changed a field last, and when. writes.go reads
// these entries. history.go decides which field manager counts as another controller, and is pure. registry.go does so
// for all health checks of one kind.
//
// Two processes of Fettle have the same field manager, so a Registry does not detect a second Fettle. Leader election
// and the ledger keep two of them apart.
package writers
