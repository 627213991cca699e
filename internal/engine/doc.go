// Package engine runs a pass over each cluster when its state has changed or a deadline is due. It
// takes the snapshot, makes the calls that the pass returns, and wakes the cluster again when the pass
// says so.
//
// The engine reaches dialects, remedies and guards only through its ports, and doesn't know which
// exist. It decides nothing: package core decides, and package pass orders the calls.
//
//	e := engine.New(engine.Config{…})
//	next, err := e.Pass(ctx) // one pass; next is when the following pass is due
//	e := engine.New(engine.Config{…})
//	next, err := e.Pass(ctx)   // one pass; next is when the following one is due
package engine
