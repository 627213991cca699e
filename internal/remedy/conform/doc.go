// Package conform is what every remedy must do, as one suite of tests.
//
// A remedy's own test describes in a Fixture what it needs, and calls Run. The suite plays the API server,
// as far as remedies rely on it: preconditions, conflicts and finalizers. That the real one does the same is
// asked in test/integration. What is particular to one remedy is for its own tests.
package conform
