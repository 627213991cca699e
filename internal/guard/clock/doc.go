// Package clock measures how far Fettle's clock is ahead of the API server's.
//
// Most times that decisions depend on come from the API server, or from clocks that agree with it.
// Examples are when an object was created and when a condition changed. How long ago that was,
// Fettle's own clock says. Each answer of the API server has a Date header, so calls that Fettle
// makes anyway give the difference.
//
// The measurement is pure. Meter wraps the transport of requests and stores the result.
package clock
