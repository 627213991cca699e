// Package conform is the suite of tests that every dialect must pass.
//
// A dialect's own test describes in a Fixture how the dialect starts and how its health checks look,
// and calls Run. The suite plays the API server behind the dialect, in an APIServer. It tests what
// dialects promise the engine, whatever their API is. The dialect's own tests cover the rest.
package conform
