package cli

import "time"

// APIVersion is the version of what -o json and -o yaml print. Within it fields are added, and none is
// removed, renamed or given another meaning; docs/cli.md describes them. Instants are RFC 3339, in UTC
// and whole seconds; a missing one is not known, or there is none.
const APIVersion = "cli.fettle.io/v1alpha1"

// The kinds of what is printed.
const (
	kindStatus            = "Status"
	kindExplanation       = "Explanation"
	kindRepairExplanation = "RepairExplanation"
	kindCheckResult       = "CheckResult"
)

// Header begins whatever is printed.
type Header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// At is when the cluster was read.
	At         *time.Time  `json:"at,omitempty"`
	Controller *Controller `json:"controller,omitempty"`
	// Notes are sentences about what could not be known.
	Notes []string `json:"notes,omitempty"`
}

// Controller tells whether a Fettle controller leads.
type Controller struct {
	// Leads is yes, no or unknown.
	Leads    string     `json:"leads"`
	Holder   string     `json:"holder,omitempty"`
	Lease    string     `json:"lease"`
	Renewed  *time.Time `json:"renewed,omitempty"`
	Message  string     `json:"message,omitempty"`
	Duration int        `json:"leaseDurationSeconds,omitempty"`
}

// Status is the answer to fettle status.
type Status struct {
	Header

	HealthChecks []HealthCheck `json:"healthChecks"`
	// NotHealthy are the targets that are not known to be healthy, the gravest first.
	NotHealthy []Target `json:"notHealthy"`
	// Repairs are those that run.
	Repairs []Repair `json:"repairs"`
}

// HealthCheck is how one health check stands.
type HealthCheck struct {
	Reference

	// TargetKind is what it selects: Machine or Node.
	TargetKind string `json:"targetKind"`
	Total      int    `json:"total"`
	Healthy    int    `json:"healthy"`
	// MostUnhealthy is the number that are not healthy up to which repairs go on.
	MostUnhealthy int `json:"mostUnhealthy"`
	// Repairs is Allowed or Stopped.
	Repairs string `json:"repairs"`
	// Reason and Message say why repairs are stopped, and what would let them go on.
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
	DryRun  bool       `json:"dryRun,omitempty"`

	InFlight int `json:"inFlight"`
	// MostInFlight is missing when there is no limit.
	MostInFlight *int `json:"mostInFlight,omitempty"`
	// Next is what happens next, if something is to happen.
	Next *Next `json:"next,omitempty"`
}

// Reference names an object.
type Reference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Next is what happens next as things stand. Without an instant, time alone brings nothing.
type Next struct {
	At   *time.Time `json:"at,omitempty"`
	Text string     `json:"text"`
}

// Target is a machine or a node, as it is judged.
type Target struct {
	Reference

	Node  string     `json:"node,omitempty"`
	Owner *Reference `json:"owner,omitempty"`
	// Health and Reason are those of the verdict that matters most.
	Health   string     `json:"health"`
	Reason   string     `json:"reason,omitempty"`
	Since    *time.Time `json:"since,omitempty"`
	Until    *time.Time `json:"until,omitempty"`
	Verdicts []Verdict  `json:"verdicts"`
	// HeldBy are the gates that hold back its repair.
	HeldBy []Refusal `json:"heldBy,omitempty"`
	// Repair is the one that runs.
	Repair string `json:"repair,omitempty"`
}

// Verdict is how one health check finds a target.
type Verdict struct {
	HealthCheck string     `json:"healthCheck"`
	Health      string     `json:"health"`
	Reason      string     `json:"reason"`
	Message     string     `json:"message"`
	Since       *time.Time `json:"since,omitempty"`
	// Until is when a suspect target becomes unhealthy.
	Until *time.Time `json:"until,omitempty"`
	// Leads is set for the health check that asks for the repair.
	Leads  bool `json:"leads,omitempty"`
	DryRun bool `json:"dryRun,omitempty"`
}

// Refusal is a gate that holds back a repair.
type Refusal struct {
	Gate        string     `json:"gate"`
	HealthCheck string     `json:"healthCheck"`
	Message     string     `json:"message"`
	Until       *time.Time `json:"until,omitempty"`
	DryRun      bool       `json:"dryRun,omitempty"`
}

// Repair is one repair.
type Repair struct {
	Namespace   string     `json:"namespace"`
	Name        string     `json:"name"`
	Target      Reference  `json:"target"`
	Node        string     `json:"node,omitempty"`
	Owner       *Reference `json:"owner,omitempty"`
	HealthCheck string     `json:"healthCheck"`
	Remedies    []string   `json:"remedies"`
	Reason      string     `json:"reason"`
	// Message is why the target was unhealthy; Progress is what happened last.
	Message        string     `json:"message,omitempty"`
	Progress       string     `json:"progress,omitempty"`
	Phase          string     `json:"phase"`
	UnhealthySince *time.Time `json:"unhealthySince,omitempty"`
	Started        *time.Time `json:"started,omitempty"`
	Finished       *time.Time `json:"finished,omitempty"`
	// Retry counts the replacements that failed in a row before it.
	Retry int `json:"retry,omitempty"`
	// Attempts counts the refused calls of the remedy, the last of which failed with LastError.
	Attempts    int        `json:"attempts,omitempty"`
	LastAttempt *time.Time `json:"lastAttempt,omitempty"`
	LastError   string     `json:"lastError,omitempty"`
}

// Explanation is the answer to fettle explain machine/NAME and node/NAME.
type Explanation struct {
	Header

	Subject Reference         `json:"subject"`
	Targets []ExplainedTarget `json:"targets"`
	// Message says why there is no target to explain.
	Message string `json:"message,omitempty"`
}

// ExplainedTarget is one target with what there is to know of it.
type ExplainedTarget struct {
	Target

	Deleting   *time.Time `json:"deletingSince,omitempty"`
	Finalizers []string   `json:"finalizers,omitempty"`
	// Earlier are finished repairs of it, and of the others that its owner has made, the youngest first.
	Earlier []Repair `json:"earlierRepairs,omitempty"`
	// Unselected says, when no health check selects it, what the nearest one asks for.
	Unselected string `json:"unselected,omitempty"`
	Next       Next   `json:"next"`
}

// RepairExplanation is the answer to fettle explain repair/NAME.
type RepairExplanation struct {
	Header

	Repair Repair `json:"repair"`
	// Target is what is repaired, while it exists.
	Target *ExplainedTarget `json:"target,omitempty"`
	// WaitsFor is what holds the repair up; Advice is what a person can do.
	WaitsFor []string `json:"waitsFor,omitempty"`
	Advice   string   `json:"advice,omitempty"`
	Next     Next     `json:"next"`
}

// instant gives a time as it is printed.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	return &t
}
