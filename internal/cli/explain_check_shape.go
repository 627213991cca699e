package cli

import "time"

// These are the states of a gate.
const (
	gateOpen    = "Open"
	gateClosed  = "Closed"
	gateUnknown = "Unknown"
)

// HealthCheckExplanation is the answer to fettle explain nodehealthcheck/NAME and machinehealthcheck/NAME.
type HealthCheckExplanation struct {
	Header

	HealthCheck HealthCheck `json:"healthCheck"`
	// Group is the API group, which distinguishes kinds of the same name.
	Group string `json:"group"`
	// Counts are the numbers of its own verdicts.
	Counts Counts `json:"counts"`
	// NotHealthy are some targets that it does not find healthy, the most severe first, each with its own verdict.
	// Omitted counts the others.
	NotHealthy []Target `json:"notHealthy"`
	Omitted    int      `json:"notHealthyOmitted,omitempty"`
	// Gates are the gates that may hold back repairs, with their states.
	Gates []GateState `json:"gates"`
	// Running are repairs that it leads. Ended are the last that ended, of which Retained are kept.
	Running        []Repair `json:"repairsUnderWay"`
	RunningOmitted int      `json:"repairsUnderWayOmitted,omitempty"`
	Ended          []Repair `json:"endedRepairs"`
	Retained       int      `json:"endedRepairsKept"`
	// Kept are withdrawn remediation objects that finalizers keep, and whose nodes or machines are gone. KeptOmitted
	// counts the others.
	Kept        []Request `json:"keptRequests,omitempty"`
	KeptOmitted int       `json:"keptRequestsOmitted,omitempty"`
	// Shared are the other health checks that select some of the same targets.
	Shared []Sharing `json:"sharedWith,omitempty"`
	// Idle says why nothing happens now. It is empty when a repair is due.
	Idle string `json:"idle,omitempty"`
	Next Next   `json:"next"`
}

// Counts has the number of targets by verdict.
type Counts struct {
	Healthy   int `json:"healthy"`
	Unhealthy int `json:"unhealthy"`
	Suspect   int `json:"suspect"`
	Unknown   int `json:"unknown"`
	Gone      int `json:"gone"`
	// Behind counts targets that are gone and not replaced yet. They count against the limits.
	Behind int `json:"awaitingReplacement,omitempty"`
}

// GateState is the state of a gate for a health check.
type GateState struct {
	Gate string `json:"gate"`
	// HealthCheck is set for the gate of another health check that selects the same target.
	HealthCheck *Reference `json:"healthCheck,omitempty"`
	// State is Open, Closed or Unknown. For Unknown, Message says why.
	State   string     `json:"state"`
	Message string     `json:"message,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
	// Holds counts the targets that it holds back, and Names are some of them.
	Holds int      `json:"holds,omitempty"`
	Names []string `json:"names,omitempty"`
}

// Sharing is another health check that selects some of the same targets.
type Sharing struct {
	HealthCheck Reference `json:"healthCheck"`
	DryRun      bool      `json:"dryRun,omitempty"`
	// Older is set when the other is older. The older one leads where both find a target unhealthy.
	Older bool `json:"older,omitempty"`
	// Count is the number of nodes and machines that both select, and Names are some of them.
	Count int      `json:"count"`
	Names []string `json:"names"`
	// LedByIt counts the groups that the other leads now, and LedHere those of this health check.
	LedByIt int `json:"ledByIt"`
	LedHere int `json:"ledHere"`
}
