// Package conform has the tests that every remedy must pass, as one suite.
//
// A remedy's own test describes in a Fixture what the suite needs, and calls Run. The suite has a fake API server with
// preconditions, conflicts and finalizers, as far as remedies rely on them. test/integration tests the remedies on a
// real one. Each remedy tests its own peculiarities itself.
package conform
