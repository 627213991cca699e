package cli

import "time"

// The states of a gate.
const (
	gateOpen    = "Open"
	gateClosed  = "Closed"
	gateUnknown = "Unknown"
)

// HealthCheckExplanation is the answer to fettle explain nodehealthcheck/NAME and machinehealthcheck/NAME.
type HealthCheckExplanation struct {
	Header

	HealthCheck HealthCheck `json:"healthCheck"`
	// Group is that of its API, which tells kinds of the same name apart.
	Group string `json:"group"`
	// Counts are of what it selects, by its own verdicts.
	Counts Counts `json:"counts"`
	// NotHealthy are some of what it does not find healthy, the gravest first, each with the verdict of this health check;
	// Omitted counts the others.
	NotHealthy []Target `json:"notHealthy"`
	Omitted    int      `json:"notHealthyOmitted,omitempty"`
	// Gates are what may hold back repairs, and how each stands.
	Gates []GateState `json:"gates"`
	// Running are repairs that it leads, and Ended the last that ended, of which Retained are kept.
	Running        []Repair `json:"repairsUnderWay"`
	RunningOmitted int      `json:"repairsUnderWayOmitted,omitempty"`
	Ended          []Repair `json:"endedRepairs"`
	Retained       int      `json:"endedRepairsKept"`
	// Kept are remediation objects that Fettle has withdrawn, whose nodes or machines are gone, and that finalizers keep.
	// KeptOmitted counts the others.
	Kept        []Request `json:"keptRequests,omitempty"`
	KeptOmitted int       `json:"keptRequestsOmitted,omitempty"`
	// Shared are the other health checks that select some of the same.
	Shared []Sharing `json:"sharedWith,omitempty"`
	// Idle says why nothing happens now; empty when something does.
	Idle string `json:"idle,omitempty"`
	Next Next   `json:"next"`
}

// Counts say how many targets a health check finds how.
type Counts struct {
	Healthy   int `json:"healthy"`
	Unhealthy int `json:"unhealthy"`
	Suspect   int `json:"suspect"`
	Unknown   int `json:"unknown"`
	Gone      int `json:"gone"`
	// Behind are targets that are gone and whose replacements have not come. They count against the limits.
	Behind int `json:"awaitingReplacement,omitempty"`
}

// GateState is how a gate stands for a health check.
type GateState struct {
	Gate string `json:"gate"`
	// HealthCheck is set for the gate of another health check that selects the same.
	HealthCheck *Reference `json:"healthCheck,omitempty"`
	// State is Open, Closed, or Unknown: then Message says why.
	State   string     `json:"state"`
	Message string     `json:"message,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
	// Holds counts the targets that it holds back, and Names are some of them.
	Holds int      `json:"holds,omitempty"`
	Names []string `json:"names,omitempty"`
}

// Sharing is another health check that selects some of the same.
type Sharing struct {
	HealthCheck Reference `json:"healthCheck"`
	DryRun      bool      `json:"dryRun,omitempty"`
	// Older is set when the other is the older, which leads where both find a target unhealthy.
	Older bool `json:"older,omitempty"`
	// Count is how many nodes and machines both select, and Names are some of them.
	Count int      `json:"count"`
	Names []string `json:"names"`
	// LedByIt and LedHere count how many of them the other leads now, and how many this health check leads.
	LedByIt int `json:"ledByIt"`
	LedHere int `json:"ledHere"`
}
