// Package engine turns decisions into deeds, one pass at a time for each fleet: observe, decide,
// record, act, and sleep until the decision says that time will change it.
//
// It knows its neighbours only as ports. It must not know which dialects, remedies or guards there
// are, and it takes no decision of its own: what may happen is decided in package core.
//
//	e := engine.New(engine.Config{…})
//	next, err := e.Pass(ctx)   // one pass; next is when the following one is due
package engine
