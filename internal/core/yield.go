package core

import "time"

// Yield says what a workload cluster leaves to the health checks of the home cluster, which is the cluster that Fettle runs
// in. A management cluster may be its own workload cluster, and then both have the same nodes. Two loops that judge the same
// nodes would not see each other's repairs, limits and control plane.
type Yield int

const (
	// NoYield: no health check of the home cluster acts on the nodes.
	NoYield Yield = iota
	// YieldPending: it is not known yet whether one does. Nothing is decided.
	YieldPending
	// YieldUnknown: that has been unknown for YieldPendingFor. Nothing new is repaired.
	YieldUnknown
	// YieldToHome: a health check of the home cluster acts on a node. Nothing new is repaired.
	YieldToHome
)

// YieldPendingFor is how long it may be unknown whether the home cluster acts before health checks report it. Caches fill in
// that time.
const YieldPendingFor = 2 * time.Minute

// YieldTo returns the Yield that follows from whether the home cluster acts on the nodes, and for how long that has been
// unknown.
func YieldTo(acts Tri, unknownFor time.Duration) Yield {
	switch {
	case acts == No:
		return NoYield
	case acts == Yes:
		return YieldToHome
	case unknownFor < YieldPendingFor:
		return YieldPending
	}
	return YieldUnknown
}

// BlocksStarts reports whether no repair of the workload cluster may start.
func (y Yield) BlocksStarts() bool { return y == YieldUnknown || y == YieldToHome }

// YieldsSince reports whether a step that was decided may not be taken any more. Its policy was not paused then, and a
// health check of the home cluster acts by now, or may do so.
func YieldsSince(wasPaused bool, acts func() Tri) bool { return !wasPaused && acts() != No }

// HomeActs reports whether any of n kinds of health checks of the home cluster acts on some nodes. For each kind, acts
// reports whether a health check of it acts on them. HasAny reports whether the kind's cache has any of the nodes. Where it is
// unknown whether they act, one kind that knows all nodes of the home cluster suffices. If it has none of these, the answer is No.
func HomeActs(n int, acts, hasAny func(kind int) Tri) Tri {
	if is := AnyYes(n, acts); is != Unknown {
		return is
	}
	is := Unknown
	for i := range n {
		switch hasAny(i) {
		case Yes:
			return Unknown
		case No:
			is = No
		case Unknown:
		}
	}
	return is
}

// AnyYes returns Yes if any of n answers is Yes, otherwise Unknown if any is, otherwise No.
func AnyYes(n int, of func(int) Tri) Tri {
	is := No
	for i := range n {
		switch of(i) {
		case Yes:
			return Yes
		case Unknown:
			is = Unknown
		case No:
		}
	}
	return is
}
