package core

// clockHolds returns the gate of the clock that holds back the repairs of a policy, 0 for none.
func clockHolds(f *Cluster, policy *ID) Gate {
	switch {
	case f.Observed != Yes:
		return 0
	case f.ClockAgrees == Yes:
		return f.ClockGates[*policy]
	case f.ClockAgrees == No:
		return ClockSkewed
	}
	return ClockUnknown
}

// IsOfClock reports whether a condition's reason is that the clock holds back all repairs. A status
// has it only where no other gate does.
func IsOfClock(reason string) bool { return GateOfClock(reason) != 0 }

// GateOfClock returns the clock gate that a condition's reason names, 0 for any other reason.
func GateOfClock(reason string) Gate {
	for _, gate := range []Gate{ClockSkewed, ClockUnknown} {
		if reason == gate.String() {
			return gate
		}
	}
	return 0
}
