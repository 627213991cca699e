// Mutate breaks Fettle's code in small ways and reports which test notices each.
//
// A mutant is one such change. It negates a condition, drops a statement or a return, moves a limit by one, or leaves
// out an element of a table. A mutant that no test notices survives: the code it stands in is not tested, or not
// needed.
//
//	go run ./hack/mutate                          # all packages of the table
//	go run ./hack/mutate -package internal/core   # some of them
//	go run ./hack/mutate -part 3/40 -budget 150s  # a part, for some time
//	go run ./hack/mutate -match core/gates        # the mutants of some files, functions or operators
//	go run ./hack/mutate -explained               # the explained mutants, to find what a test notices by now
//	go run ./hack/mutate -list                    # the mutants, without a test
//
// All mutants of a package are compiled into one test binary, where an environment variable switches one of them on. So a
// mutant costs a run of tests and no build. The changed files reach the compiler by an overlay; the tree isn't written.
// First each test runs alone, to learn which mutants it reaches. Then each mutant meets the tests that reach it.
//
// Survivors that are explained are in survivors.txt. The run fails on any other, unless its package is marked open in
// the table. Then the number of its survivors must not exceed the number there. Any run fails where survivors.txt
// explains a mutant that does not exist, because the code changed. make verify runs -list for that.
package main
