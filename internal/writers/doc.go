// Package writers notices another controller that writes the status of the same health check.
//
// The API server keeps for each field of a status which field manager changed it last, and when (metadata.managedFields).
// writes.go reads that, watch.go is pure and decides who counts as another controller, registry.go does so for all health
// checks of one kind.
//
// Two processes of Fettle have the same field manager, so a Registry does not notice a second Fettle. Leader election and the
// ledger keep two of them apart.
package writers
