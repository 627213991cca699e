// Package pass is one pass over a cluster as a step machine. It returns the calls to make next, takes in their results,
// and says what follows from them. It makes no call itself, starts no goroutine and reads no clock: the time comes with
// the results.
//
//	p := pass.New(config, state, snapshot)
//	for !p.Over() {
//		for _, call := range p.Calls() { … }   // each call is returned once
//		p.Done(call, result)                   // one result, in any order; the calls that follow are in p.Calls()
//	}
//	next := p.Next()
//
// One table, in stage.go, declares the order of writes. A pass may be given up between any two
// results, as a crash does, together with the State.
package pass
