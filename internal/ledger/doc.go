// Package ledger keeps repairs as Repair objects in the API server. It renders the decisions of the
// core and reads them back. It decides nothing.
package ledger
