package cli

import "time"

// APIVersion is the version of the documents of -o json and -o yaml. Within it, fields are added, and none is removed,
// renamed or given another meaning. docs/cli.md describes them. Instants are RFC 3339, in UTC and whole seconds. A
// missing instant is unknown, or does not exist.
const APIVersion = "cli.fettle.io/v1alpha1"

// These are the kinds of documents.
const (
	kindStatus            = "Status"
	kindExplanation       = "Explanation"
	kindRepairExplanation = "RepairExplanation"
	kindCheckExplanation  = "HealthCheckExplanation"
	kindCheckResult       = "CheckResult"
	kindRepairRequest     = "RepairRequest"
)

// Header begins each document.
type Header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// At is when the cluster was read.
	At         *time.Time  `json:"at,omitempty"`
	Controller *Controller `json:"controller,omitempty"`
	// Notes are sentences about unknown facts.
	Notes []string `json:"notes,omitempty"`
}

// Controller says whether a Fettle controller leads.
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
	// NotHealthy are the targets that are not known to be healthy, the most severe first.
	NotHealthy []Target `json:"notHealthy"`
	// Repairs are the running ones.
	Repairs []Repair `json:"repairs"`
	// UnreachableBMCs are the BMCs that Fettle could not reach, where a health check has nodes fenced by their power.
	UnreachableBMCs []BMCState `json:"unreachableBMCs,omitempty"`
	// WithPromise are the nodes of FencePolicies that promise to fence themselves, where a health check has nodes do so.
	WithPromise []NodePromise `json:"nodesWithPromise,omitempty"`
	// WithoutPromise are the nodes of FencePolicies that promise nothing, where a health check has nodes fence themselves.
	WithoutPromise []NodePromise `json:"nodesWithoutPromise,omitempty"`
}

// HealthCheck is the state of one health check.
type HealthCheck struct {
	Reference

	// Cluster is its workload cluster, by the name of a Cluster in the same namespace. It is missing for the user's own
	// cluster.
	Cluster string `json:"cluster,omitempty"`
	// TargetKind is the kind of its targets: Machine or Node.
	TargetKind string `json:"targetKind"`
	// Phase is its phase, for APIs that have one: Disabled, Paused, Remediating or Enabled.
	Phase   string `json:"phase,omitempty"`
	Total   int    `json:"total"`
	Healthy int    `json:"healthy"`
	// MostUnhealthy is the number of targets that may be not healthy while repairs go on.
	MostUnhealthy int `json:"mostUnhealthy"`
	// AsWritten is set when its targets can't be judged from here. Then numbers and repairs are from the last status.
	AsWritten bool `json:"asWritten,omitempty"`
	// Repairs is Allowed, PolicyRefusal or Unknown.
	Repairs string `json:"repairs"`
	// Reason and Message say why repairs are stopped, and what would resume them.
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
	DryRun  bool       `json:"dryRun,omitempty"`

	InFlight int `json:"inFlight"`
	// MostInFlight is missing when there is no limit.
	MostInFlight *int `json:"mostInFlight,omitempty"`
	// Next is the next change, if there is one.
	Next *Next `json:"next,omitempty"`
}

// Reference names an object.
type Reference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Next is what happens next if nothing changes. Without an instant, time alone changes nothing.
type Next struct {
	At   *time.Time `json:"at,omitempty"`
	Text string     `json:"text"`
}

// Target is a machine or a node, with its verdicts.
type Target struct {
	Reference

	// Cluster is its workload cluster.
	Cluster string     `json:"cluster,omitempty"`
	Node    string     `json:"node,omitempty"`
	Owner   *Reference `json:"owner,omitempty"`
	// Health and Reason are those of the most severe verdict.
	Health   string     `json:"health"`
	Reason   string     `json:"reason,omitempty"`
	Since    *time.Time `json:"since,omitempty"`
	Until    *time.Time `json:"until,omitempty"`
	Verdicts []Verdict  `json:"verdicts"`
	// HeldBy are the gates that hold back its repair.
	HeldBy []Refusal `json:"heldBy,omitempty"`
	// Repair is the running one.
	Repair string `json:"repair,omitempty"`
	// Lead is the health check that leads its repair, if there is one.
	Lead *Lead `json:"lead,omitempty"`
}

// Lead is the health check that leads the repair of a node and its machine.
type Lead struct {
	HealthCheck Reference `json:"healthCheck"`
	// Of is the other target of the node, when that is the one to be repaired.
	Of *Reference `json:"of,omitempty"`
}

// Verdict is the verdict of one health check on a target.
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
	// Leads is set for the health check that leads the repair.
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
	// Unknown is set when the gate depends on facts that could not be read. Message says why.
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
	// Steps are its steps.
	Steps  []Step `json:"steps"`
	Reason string `json:"reason"`
	// Message is why the target was unhealthy. Progress is what happened last.
	Message  string `json:"message,omitempty"`
	Progress string `json:"progress,omitempty"`
	// Answer is the last answer of the remediator or owner, or for how long there was none.
	Answer         string     `json:"answer,omitempty"`
	Phase          string     `json:"phase"`
	UnhealthySince *time.Time `json:"unhealthySince,omitempty"`
	Started        *time.Time `json:"started,omitempty"`
	Finished       *time.Time `json:"finished,omitempty"`
	// Retry counts the replacements that failed in a row before it.
	Retry int `json:"retry,omitempty"`
	// Attempts counts the refused calls of the remedy. The last one failed with LastError.
	Attempts    int        `json:"attempts,omitempty"`
	LastAttempt *time.Time `json:"lastAttempt,omitempty"`
	LastError   string     `json:"lastError,omitempty"`
	// Evidence is how its node was fenced, the earliest first.
	Evidence []Evidence `json:"evidence,omitempty"`
	// Problem says which part of it can't be read.
	Problem string `json:"problem,omitempty"`
}

// These are the states of a step.
const (
	stepPlanned  = "Planned"
	stepDue      = "Due"
	stepUnderWay = "UnderWay"
	stepUnknown  = "Unknown"
	stepEnded    = "Ended"
	stepNotTaken = "NotTaken"
)

// Step is one step of a repair.
type Step struct {
	Remedy string `json:"remedy"`
	// Template is the template of its request, for remedies that make one.
	Template *Template `json:"template,omitempty"`
	// Timeout is its time limit, such as 5m0s. It is missing for no limit.
	Timeout string `json:"timeout,omitempty"`
	// State is one of Planned, Due, UnderWay, TimedOut, Failed, Ended, NotTaken and Unknown. Due: its remedy was not
	// called yet. Ended: the repair ended during this step. NotTaken: the repair ended before. Unknown: Message says
	// why.
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

// Request is a remediation request: an object for a remediator.
type Request struct {
	Reference

	APIVersion string `json:"apiVersion"`
	// Template is the name of its template, and HealthCheck the name of its health check. Each is empty where the
	// object doesn't name it.
	Template    string     `json:"template,omitempty"`
	HealthCheck string     `json:"healthCheck,omitempty"`
	Created     *time.Time `json:"created,omitempty"`
	// Processing and Succeeded are the remediator's conditions: yes, no or unknown.
	Processing string `json:"processing"`
	Succeeded  string `json:"succeeded"`
	// Phase is the remediator's status.phase, where it has one.
	Phase string `json:"phase,omitempty"`
	// TimedOut is when Fettle told the remediator to stop.
	TimedOut *time.Time `json:"timedOut,omitempty"`
	// Leaving is set once its deletion was requested. ReplacesNode is set when its node is expected to be gone for
	// good.
	Leaving      bool `json:"leaving,omitempty"`
	ReplacesNode bool `json:"replacesNode,omitempty"`
	// LeavingSince is when its deletion was requested, and KeptBy names the finalizers that keep it.
	LeavingSince *time.Time `json:"leavingSince,omitempty"`
	KeptBy       string     `json:"keptBy,omitempty"`
	// Earlier is set for a request about an earlier node or machine of the same name.
	Earlier bool `json:"ofEarlierTarget,omitempty"`
	// Foreign is set for a request that Fettle did not create. Fettle never stops or deletes it.
	Foreign bool `json:"foreign,omitempty"`
	// Fencing is how far it has come, for a PowerRemediation.
	Fencing *Fencing `json:"fencing,omitempty"`
}

// Recovery is how long the requests of a node that is healthy again stay.
type Recovery struct {
	Since *time.Time `json:"since,omitempty"`
	// Until is missing when a user must confirm that the node is healthy.
	Until *time.Time `json:"until,omitempty"`
	// Confirm is the command of that confirmation. It is empty for machines.
	Confirm string `json:"confirm,omitempty"`
}

// NodeLease is the lease of a node: the right to take it out of service.
type NodeLease struct {
	// Holder is empty when the lease is free or unknown.
	Holder string     `json:"holder,omitempty"`
	Until  *time.Time `json:"until,omitempty"`
	// Ours is set when the health check that leads holds it.
	Ours bool `json:"ours,omitempty"`
	// Unknown says why its holder is not known.
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

// ExplainedTarget is one target with all facts about it.
type ExplainedTarget struct {
	Target

	// Sibling is the other target of the node: the machine of a node, or the node of a machine.
	Sibling    *Reference `json:"sibling,omitempty"`
	Deleting   *time.Time `json:"deletingSince,omitempty"`
	Finalizers []string   `json:"finalizers,omitempty"`
	// Excluded is set when a label excludes it from repairs. ConfirmedHealthy is set when an annotation confirms that
	// it is healthy.
	Excluded         bool `json:"excluded,omitempty"`
	ConfirmedHealthy bool `json:"confirmedHealthy,omitempty"`
	// RepairRequest is a user's request for its repair, by an annotation.
	RepairRequest *RequestedRepair `json:"repairRequest,omitempty"`
	// Lease is that of its node, for health checks that use leases.
	Lease *NodeLease `json:"lease,omitempty"`
	// Steps are those of the running repair, or of the next one. Requests are its remediation requests.
	Steps    []Step    `json:"steps,omitempty"`
	Requests []Request `json:"requests,omitempty"`
	// Evidence is how the node was fenced for the running repair.
	Evidence []Evidence `json:"evidence,omitempty"`
	Recovery *Recovery  `json:"recovery,omitempty"`
	// BMCs are those of its node, where a health check has the node fenced by its power. BMCProblem says why no node can
	// be fenced so, or why that is not known.
	BMCs       []BMCState `json:"bmcs,omitempty"`
	BMCProblem string     `json:"bmcProblem,omitempty"`
	// Promise is what its node promises, where a health check has the node fence itself.
	Promise *NodePromise `json:"promise,omitempty"`
	// OwnerAnswer is the answer of its owner to the request to replace it, for owners that take such requests.
	OwnerAnswer *OwnerAnswer `json:"ownerAnswer,omitempty"`
	// Earlier are finished repairs of it, and of the other targets of its owner, the youngest first.
	Earlier []Repair `json:"earlierRepairs,omitempty"`
	// Unselected says, when no health check selects it, what the nearest one requires.
	Unselected string `json:"unselected,omitempty"`
	Next       Next   `json:"next"`
}

// OwnerAnswer is how the owner of a target replaces it.
type OwnerAnswer struct {
	Owner Reference `json:"owner"`
	// Requested is set while a request stands. Since is when the request was made, or when the owner answered last.
	Requested bool       `json:"asked"`
	Since     *time.Time `json:"since,omitempty"`
	// Reason and Message are its answer, or empty.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Rules are sentences about its procedure, and Waits what it waits for, as far as that can be seen.
	Rules []string    `json:"rules,omitempty"`
	Waits []OwnerWait `json:"waitsFor,omitempty"`
	// Unknown says what could not be read.
	Unknown string `json:"unknown,omitempty"`
}

// OwnerWait is one condition that an owner waits for.
type OwnerWait struct {
	Message string `json:"message"`
	// Until is when time alone has ended it.
	Until *time.Time `json:"until,omitempty"`
	// Advice is what a user can do to end it sooner.
	Advice string `json:"advice,omitempty"`
}

// RepairExplanation is the answer to fettle explain repair/NAME.
type RepairExplanation struct {
	Header

	// Message is set when the repair explains a machine or a node that is gone.
	Message string `json:"message,omitempty"`
	Repair  Repair `json:"repair"`
	// Requests are its remediation requests, when the target is gone. They may outlast the repair.
	Requests []Request `json:"requests,omitempty"`
	// Target is its target, while that exists.
	Target *ExplainedTarget `json:"target,omitempty"`
	// WaitsFor is what it waits for. Advice is what a user can do.
	WaitsFor []string `json:"waitsFor,omitempty"`
	Advice   string   `json:"advice,omitempty"`
	Next     Next     `json:"next"`
}

// instant returns a time as documents have it.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	return &t
}
