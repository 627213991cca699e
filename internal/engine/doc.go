// Package engine runs passes over each fleet: it takes a snapshot, makes the calls that the pass asks
// for, and sleeps until the pass says that time will change something.
//
// It knows its neighbours only as ports. It must not know which dialects, remedies or guards there
// are, and it takes no decision of its own: package core decides what may happen, and package pass
// which call follows which.
//
//	e := engine.New(engine.Config{…})
//	next, err := e.Pass(ctx)   // one pass; next is when the following one is due
package engine
