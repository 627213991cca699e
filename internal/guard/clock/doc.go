// Package clock tells by how much Fettle's clock differs from the API server's.
//
// Nearly all instants that decisions go by are those of the API server, or of clocks that agree with it: when an object was
// created, when a condition changed. How long ago that was, Fettle's own clock says. Each answer of the API server has a Date
// header, so the difference follows from calls that Fettle makes anyway.
//
// The measurement is pure; the meter stands in the way of requests and keeps what was measured.
package clock
