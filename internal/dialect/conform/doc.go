// Package conform is what every dialect must do, as one suite of tests.
//
// A dialect's own test describes, in a Fixture, how the dialect is begun and what its health checks look
// like, and calls Run. The suite plays the API server behind the dialect, in a APIServer: it is about what
// dialects promise the engine, whatever their API is. What is particular to one is for its own tests.
package conform
