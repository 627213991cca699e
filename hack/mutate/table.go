package main

// target is a package whose code is broken.
type target struct {
	dir string

	// tests are the packages whose tests may notice a mutant, in the order in which they are tried. The package's own
	// tests come first and need no mention.
	tests []testPackage

	// open is how many unexplained survivors the package may have. It only shrinks. Zero means that it may have none.
	open int

	// unmeasured is set where no complete run has counted the survivors yet. They are listed, and fail nothing.
	unmeasured bool
}

// testPackage is a package of tests, or the part of it that suits many short runs. All tests run with -short.
type testPackage struct {
	dir  string
	skip string // a regular expression of tests that are too slow to run for each mutant
}

// table returns the packages that are broken, and what must notice it.
func table() []target {
	worlds := testPackage{dir: "internal/sim"}
	return []target{
		{dir: "internal/core", tests: []testPackage{worlds}, unmeasured: true},
		{dir: "internal/engine", unmeasured: true},
		{dir: "internal/workload", unmeasured: true},
		{dir: "internal/lean", unmeasured: true},
		{dir: "internal/sanitize", unmeasured: true},
		{dir: "internal/contain", unmeasured: true},
		{dir: "internal/legible", unmeasured: true},
		{dir: "internal/setting", unmeasured: true},
		{dir: "internal/ledger", unmeasured: true},
		{dir: "internal/node", unmeasured: true},
		{dir: "internal/clusterapi", unmeasured: true},
		{dir: "internal/served", unmeasured: true},
		{dir: "internal/watching", unmeasured: true},
		{dir: "internal/writers", unmeasured: true},
		{dir: "internal/telling", unmeasured: true},
		{dir: "internal/guard/clock", unmeasured: true},
		{dir: "internal/guard/lease", unmeasured: true},
		{dir: "internal/guard/quorum", unmeasured: true},
		{dir: "internal/guard/upgrade", unmeasured: true},
		{dir: "internal/remedy/annotate", unmeasured: true},
		{dir: "internal/remedy/machinedelete", unmeasured: true},
		{dir: "internal/remedy/owner", unmeasured: true},
		{dir: "internal/remedy/template", unmeasured: true},
		{dir: "internal/remediator/machinedeletion", unmeasured: true},
		{dir: "internal/dialect/openshift", unmeasured: true},
		{dir: "internal/dialect/capi", unmeasured: true},
		{dir: "internal/dialect/nhc", unmeasured: true},
	}
}
