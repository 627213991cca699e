package main

// target is a package whose code is broken.
type target struct {
	dir string

	// skip is a regular expression of the package's own tests that are too slow to run for each mutant.
	skip string

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
	dialects := []testPackage{{dir: "internal/dialect/openshift"}, {dir: "internal/dialect/capi"}, {dir: "internal/dialect/nhc"}}
	return []target{
		{dir: "internal/core", tests: []testPackage{worlds}},
		{dir: "internal/pass"},
		{dir: "internal/engine"},
		{dir: "internal/workload"},
		{dir: "internal/slim", tests: []testPackage{{dir: "internal/node"}, {dir: "internal/dialect/nhc"}}},
		{dir: "internal/sanitize"},
		{dir: "internal/power"},
		{dir: "internal/watchdog"},
		{dir: "internal/baremetalhost"},
		{dir: "internal/fencing", skip: "^TestSmallWorlds(ByPromise|ByBoth)?$"},
		{dir: "internal/selffence", skip: "^(TestSmallWorlds|TestFaultsAreFound)$"},
		{dir: "internal/promiselease"},
		{dir: "internal/peer", skip: "^TestConnectionsOfAll$"},
		{dir: "internal/fencepolicy"},
		{dir: "internal/fencestatus"},
		{dir: "internal/agentsigner"},
		{dir: "internal/agent", unmeasured: true},
		{dir: "internal/contain"},
		{dir: "internal/logging"},
		{dir: "internal/lenient"},
		{dir: "internal/specparse"},
		{dir: "internal/ledger"},
		{dir: "internal/node"},
		{dir: "internal/clusterapi", tests: []testPackage{{dir: "internal/dialect/capi"}, {dir: "internal/remedy/owner"}}},
		{dir: "internal/servedapi"},
		{dir: "internal/informer"},
		{dir: "internal/writers"},
		{dir: "internal/messages"},
		{dir: "internal/guard/clock"},
		{dir: "internal/guard/lease"},
		{dir: "internal/guard/quorum"},
		{dir: "internal/guard/upgrade"},
		{dir: "internal/remedy/annotate"},
		{dir: "internal/remedy/machinedelete"},
		{dir: "internal/remedy/owner"},
		{dir: "internal/remedy/template"},
		{dir: "internal/remediator/contract"},
		{dir: "internal/remediator/fencednode", tests: []testPackage{{dir: "internal/remediator/selffencing"}, {dir: "internal/remediator/powercycle"}}},
		{dir: "internal/remediator/loop"},
		{dir: "internal/remediator/machinedeletion"},
		{dir: "internal/remediator/nodepromise", tests: []testPackage{{dir: "internal/remediator/selffencing"}, {dir: "internal/remediator/powercycle"}}},
		{dir: "internal/remediator/powercycle"},
		{dir: "internal/remediator/selffencing"},
		{dir: "internal/healthcheck", tests: dialects},
		{dir: "internal/selector"},
		{dir: "internal/metricsauth"},
		{dir: "internal/cli", unmeasured: true},
		{dir: "internal/dialect/openshift"},
		{dir: "internal/dialect/capi"},
		{dir: "internal/dialect/nhc"},
	}
}
