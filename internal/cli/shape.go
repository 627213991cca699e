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
	kindCheckExplanation  = "HealthCheckExplanation"
	kindCheckResult       = "CheckResult"
	kindRepairRequest     = "RepairRequest"
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

	// Cluster is the workload cluster that it is for, by the name of its Name in the same namespace; missing for the
	// cluster that was asked.
	Cluster string `json:"cluster,omitempty"`
	// TargetKind is what it selects: Machine or Node.
	TargetKind string `json:"targetKind"`
	// Phase is how it stands in a word, for kinds that have such a word: Disabled, Paused, Remediating or Enabled.
	Phase   string `json:"phase,omitempty"`
	Total   int    `json:"total"`
	Healthy int    `json:"healthy"`
	// MaxUnhealthy is the number that are not healthy up to which repairs go on.
	MostUnhealthy int `json:"mostUnhealthy"`
	// AsWritten is set when the machines can't be judged from here, and numbers and repairs are what a controller has
	// written last.
	AsWritten bool `json:"asWritten,omitempty"`
	// Repairs is Allowed, PolicyRefusal or Unknown.
	Repairs string `json:"repairs"`
	// Reason and Message say why repairs are stopped, and what would let them go on.
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
	DryRun  bool       `json:"dryRun,omitempty"`

	InFlight int `json:"inFlight"`
	// MaxInFlight is missing when there is no limit.
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

	// Cluster is the workload cluster that it is of.
	Cluster string     `json:"cluster,omitempty"`
	Node    string     `json:"node,omitempty"`
	Owner   *Reference `json:"owner,omitempty"`
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
	// Lead is who leads what happens to it, when somebody does.
	Lead *Lead `json:"lead,omitempty"`
}

// Lead is the health check that leads what happens to a node and its machine.
type Lead struct {
	HealthCheck Reference `json:"healthCheck"`
	// Of is the other target with the same node, when that is what is repaired.
	Of *Reference `json:"of,omitempty"`
}

// Verdict is how one health check finds a target.
type Verdict struct {
	HealthCheck string `json:"healthCheck"`
	// HealthCheckKind is the kind of the health check.
	HealthCheckKind string `json:"healthCheckKind"`

	Health  string     `json:"health"`
	Reason  string     `json:"reason"`
	Message string     `json:"message"`
	Since   *time.Time `json:"since,omitempty"`
	// Until is when a suspect target becomes unhealthy.
	Until *time.Time `json:"until,omitempty"`
	// Leads is set for the health check that asks for the repair.
	Leads  bool `json:"leads,omitempty"`
	DryRun bool `json:"dryRun,omitempty"`
}

// Refusal is a gate that holds back a repair.
type Refusal struct {
	Gate            string     `json:"gate"`
	HealthCheck     string     `json:"healthCheck"`
	HealthCheckKind string     `json:"healthCheckKind"`
	Message         string     `json:"message"`
	Until           *time.Time `json:"until,omitempty"`
	DryRun          bool       `json:"dryRun,omitempty"`
	// Unknown is set when it can't be told from here whether the gate holds; Message says why.
	Unknown bool `json:"unknown,omitempty"`
}

// Repair is one repair.
type Repair struct {
	Namespace   string     `json:"namespace"`
	Name        string     `json:"name"`
	Cluster     string     `json:"cluster,omitempty"`
	Target      Reference  `json:"target"`
	Node        string     `json:"node,omitempty"`
	Owner       *Reference `json:"owner,omitempty"`
	HealthCheck string     `json:"healthCheck"`
	// HealthCheckKind is the kind of the health check.
	HealthCheckKind string   `json:"healthCheckKind"`
	Remedies        []string `json:"remedies"`
	// Steps are those of its ladder.
	Steps  []Step `json:"steps"`
	Reason string `json:"reason"`
	// Message is why the target was unhealthy; Progress is what happened last.
	Message  string `json:"message,omitempty"`
	Progress string `json:"progress,omitempty"`
	// Answer is what whoever was asked has said last, or for how long nothing.
	Answer         string     `json:"answer,omitempty"`
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
	// Problem says what can't be read of it.
	Problem string `json:"problem,omitempty"`
}

// The states of a step.
const (
	stepPlanned  = "Planned"
	stepDue      = "Due"
	stepUnderWay = "UnderWay"
	stepUnknown  = "Unknown"
	stepEnded    = "Ended"
	stepNotTaken = "NotTaken"
)

// Step is one step of a ladder.
type Step struct {
	Remedy string `json:"remedy"`
	// Template is what a request is made from, for remedies that make one.
	Template *Template `json:"template,omitempty"`
	// Timeout is how long it may take, such as 5m0s; missing for no limit.
	Timeout string `json:"timeout,omitempty"`
	// State is Planned, Due (its remedy is yet to be called), UnderWay, TimedOut, Failed, Ended (the repair ended while it was
	// this step's turn), NotTaken (the repair ended before), or Unknown: then Message says why.
	State string `json:"state"`
	// Began is when it was due, Ends when it times out, and Ended when it was given up.
	Began *time.Time `json:"began,omitempty"`
	Ends  *time.Time `json:"ends,omitempty"`
	Ended *time.Time `json:"ended,omitempty"`
	// Message says why it was given up, or why it can't be taken.
	Message string `json:"message,omitempty"`
}

// Template names a template.
type Template struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// Request is an object by which a remediator was asked.
type Request struct {
	Reference

	APIVersion string `json:"apiVersion"`
	// Template is the name of what it was made from, and HealthCheck of whoever asked; empty where it doesn't tell.
	Template    string     `json:"template,omitempty"`
	HealthCheck string     `json:"healthCheck,omitempty"`
	Created     *time.Time `json:"created,omitempty"`
	// Processing and Succeeded are the remediator's own word: yes, no or unknown.
	Processing string `json:"processing"`
	Succeeded  string `json:"succeeded"`
	// Phase is the remediator's status.phase, where it has one.
	Phase string `json:"phase,omitempty"`
	// TimedOut is when the remediator was told to stop.
	TimedOut *time.Time `json:"timedOut,omitempty"`
	// Leaving is set once its deletion was requested, ReplacesNode when its node is expected to be gone for good.
	Leaving      bool `json:"leaving,omitempty"`
	ReplacesNode bool `json:"replacesNode,omitempty"`
	// LeavingSince is when its deletion was requested, and KeptBy names the finalizers that keep it.
	LeavingSince *time.Time `json:"leavingSince,omitempty"`
	KeptBy       string     `json:"keptBy,omitempty"`
	// Earlier is set for a request about an earlier node or machine of the same name.
	Earlier bool `json:"ofEarlierTarget,omitempty"`
	// Foreign is set for a request that Fettle did not make, and so never stops or deletes.
	Foreign bool `json:"foreign,omitempty"`
}

// Recovery is how long the requests of a node that is healthy again stay.
type Recovery struct {
	Since *time.Time `json:"since,omitempty"`
	// Until is missing when a person must confirm that the node is healthy.
	Until *time.Time `json:"until,omitempty"`
	// Confirm is the command by which a person does that, empty for machines.
	Confirm string `json:"confirm,omitempty"`
}

// NodeLease is who may take a node out of service.
type NodeLease struct {
	// Holder is empty when nobody has it, or when that is not known.
	Holder string     `json:"holder,omitempty"`
	Until  *time.Time `json:"until,omitempty"`
	// Ours is set when the health check that leads has it.
	Ours bool `json:"ours,omitempty"`
	// Unknown says why it is not known who has it.
	Unknown string `json:"unknown,omitempty"`
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

	// Sibling is the other target with the same node: the machine of a node, or the node of a machine.
	Sibling    *Reference `json:"sibling,omitempty"`
	Deleting   *time.Time `json:"deletingSince,omitempty"`
	Finalizers []string   `json:"finalizers,omitempty"`
	// Excluded and ConfirmedHealthy tell that somebody has excluded it from repairs, or has confirmed that it is healthy.
	Excluded         bool `json:"excluded,omitempty"`
	ConfirmedHealthy bool `json:"confirmedHealthy,omitempty"`
	// RepairRequest is a person's request for its repair, by an annotation.
	RepairRequest *RequestedRepair `json:"repairRequest,omitempty"`
	// Lease is that of its node, for health checks that heed it.
	Lease *NodeLease `json:"lease,omitempty"`
	// Steps are those of the repair that runs, or of the one that would; CreateRequest what remediators were asked for.
	Steps    []Step    `json:"steps,omitempty"`
	Requests []Request `json:"requests,omitempty"`
	Recovery *Recovery `json:"recovery,omitempty"`
	// OwnerAnswer is how its owner answers to being asked to replace it, for owners that are asked.
	OwnerAnswer *OwnerAnswer `json:"ownerAnswer,omitempty"`
	// Earlier are finished repairs of it, and of the others that its owner has made, the youngest first.
	Earlier []Repair `json:"earlierRepairs,omitempty"`
	// Unselected says, when no health check selects it, what the nearest one asks for.
	Unselected string `json:"unselected,omitempty"`
	Next       Next   `json:"next"`
}

// OwnerAnswer is how the owner of a target goes about replacing it.
type OwnerAnswer struct {
	Owner Reference `json:"owner"`
	// Asked is set while it is asked for that. Since is when it was, or when it has answered last.
	Asked bool       `json:"asked"`
	Since *time.Time `json:"since,omitempty"`
	// Reason and Message are its answer; empty while there is none.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Rules are sentences on how it goes about it, and Waits what it waits for, as far as that can be seen.
	Rules []string    `json:"rules,omitempty"`
	Waits []OwnerWait `json:"waitsFor,omitempty"`
	// Unknown says what could not be read.
	Unknown string `json:"unknown,omitempty"`
}

// OwnerWait is one thing that an owner waits for.
type OwnerWait struct {
	Message string `json:"message"`
	// Until is when time alone has ended it.
	Until *time.Time `json:"until,omitempty"`
	// Advice is what a person can do to end it sooner.
	Advice string `json:"advice,omitempty"`
}

// RepairExplanation is the answer to fettle explain repair/NAME.
type RepairExplanation struct {
	Header

	// Message says so when the repair is told in the place of a machine or a node that is gone.
	Message string `json:"message,omitempty"`
	Repair  Repair `json:"repair"`
	// Requests are what remediators were asked for, when the target is gone. They may outlast the repair.
	Requests []Request `json:"requests,omitempty"`
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
