// Package annotation names the annotations, labels and finalizers of the group fettle.io.
package annotation

// Annotations on a health check, for settings that its API has no field for. docs/dialects says which
// APIs have them.
const (
	// DryRun, with the value "true", makes Fettle report repairs and start none.
	DryRun = "fettle.io/dry-run"
	// MaxInFlight is how many targets may be under repair at a time: a number, a percentage of the selected targets, or
	// "unlimited". The default is 1 where OpenShift machines are deleted, and unlimited elsewhere.
	MaxInFlight = "fettle.io/max-in-flight"
	// StormCooldown is how long repairs wait after they were stopped, since targets recover one
	// after the other. It is a duration, and 0s is no wait. The default is 5s.
	StormCooldown = "fettle.io/storm-cooldown"
	// BackoffBase is the pause before the first failed replacement is repaired. The pause doubles
	// with each further failure. It is a duration. The default is 5s.
	BackoffBase = "fettle.io/backoff-base"
	// BackoffLimit is the longest such pause. It is a duration. The default is 20m.
	BackoffLimit = "fettle.io/backoff-limit"
	// GiveUpAfter is how many repairs in a row must fail before a pool, or a node, is given up. It is a number, or "never".
	// The default is 10, and "never" for a NodeHealthCheck without spec.backoff.
	GiveUpAfter = "fettle.io/give-up-after"
	// ResumedAt is when a user resumed repairs. Repairs that started earlier don't count towards
	// giving up. It is a time in the format of RFC 3339.
	ResumedAt = "fettle.io/resumed-at"
	// TakesOver, with the value "true", makes Cluster API's own pause annotation stop only its
	// built-in health check, and not Fettle.
	TakesOver = "fettle.io/takes-over"
	// Paused, with any value, pauses Fettle, whether or not other controllers are paused.
	Paused = "fettle.io/paused"
	// WaitForUpgrades, with the value "true", holds back repairs while the cluster, or the node of
	// the machine, is being upgraded. It also does so while that is unknown.
	WaitForUpgrades = "fettle.io/wait-for-upgrades"
	// UnhealthyConditions is a list of further criteria, in YAML or JSON. Each entry has conditions
	// of the node that must hold together (all) and for how long (for). A condition is {type,
	// status}, with a pattern for its reason if wanted, or {type, missing: true}.
	UnhealthyConditions = "fettle.io/unhealthy-conditions"
	// NodeGoneDelay is how long the node of a machine must have been gone before the machine is
	// unhealthy. It is a duration. The default is 0s.
	NodeGoneDelay = "fettle.io/node-gone-delay"
	// ExternalBaremetal is how the strategy external-baremetal of an OpenShift MachineHealthCheck is carried out: Mark or
	// PowerRemediation. The default is a flag of the controller.
	ExternalBaremetal = "fettle.io/external-baremetal"
	// PowerRelease is how a PowerRemediation of that strategy releases the workload of a node: DeleteNode, the default, or
	// Taint.
	PowerRelease = "fettle.io/power-release"
	// ForceDelete, with the value "true", lets a NodeHealthCheck be deleted while nodes are under remediation. Their
	// remediation objects are deleted with it.
	ForceDelete = "fettle.io/force-delete"
)

// Annotations on objects of the cluster, which users set.
const (
	// RepairRequestedAt, on a node or a machine, is when a user requested its repair: a time in the
	// format of RFC 3339.
	RepairRequestedAt = "fettle.io/repair-requested-at"
	// ControlPlaneQuorum, on the namespace kube-system, says where the quorum of the control plane is.
	ControlPlaneQuorum = "fettle.io/control-plane-quorum"
)

// Annotations on a remediation request, which Fettle sets.
const (
	// RequestedByUID is the UID of the health check that requests the remediation.
	RequestedByUID = "fettle.io/requested-by-uid"
	// RequestedAs names the request and its target. So annotations that are copied to another
	// object have no effect.
	RequestedAs = "fettle.io/requested-as"
	// TemplateNamespace is the namespace of the request's template, where that is not the request's own.
	TemplateNamespace = "fettle.io/template-namespace"
	// NodeHealthCheck, on a request for a node, is the name of the health check. After the health
	// check is deleted, the garbage collector removes it from the owner references, and nothing
	// else names it.
	NodeHealthCheck = "fettle.io/node-health-check"
)

// Labels.
const (
	// TargetUIDLabel is on every Repair and has the UID of its target.
	TargetUIDLabel = "fettle.io/target-uid"
	// AggregateToFettleLabel on a ClusterRole grants its rights to Fettle. A remediator may bring a
	// ClusterRole with the label of medik8s instead, which grants its rights to other health
	// checkers too (docs/reference/medik8s.md#aggregated-rights). Both labels are in
	// config/rbac/ext_remediation.yaml.
	AggregateToFettleLabel = "fettle.io/aggregate-to-fettle"
)

// ClaimedBy, on a machine, names the PowerRemediation or SelfFenceRemediation that works on its host. Fettle sets and removes it. No machine gets a
// mark for another remediator while it is there.
const ClaimedBy = "fettle.io/claimed-by"

// ClaimedMachine, on such a remediation, names the machine that it has claimed.
const ClaimedMachine = "fettle.io/claimed-machine"

// MachineDeletionFinalizer is on a MachineDeletionRemediation before its first effect, and until it
// is deleted.
const MachineDeletionFinalizer = "fettle.io/machine-deletion-remediation"

// PowerFinalizer is on a PowerRemediation before its first effect, and until what it has changed is
// taken back. Fettle's own requests have it from their creation.
const PowerFinalizer = "fettle.io/power-remediation"

// SelfFenceFinalizer is on a SelfFenceRemediation before its first effect, and until what it has
// changed is taken back.
const SelfFenceFinalizer = "fettle.io/self-fence-remediation"

// FencingTaint is the key of the NoExecute taint of a node while Fettle fences it. A node that
// returns early then does not start the pods again that are about to move.
const FencingTaint = "fettle.io/fencing"

// FencedBy, on a node, is the UID of the PowerRemediation that has disabled its scale-down for the
// time of the fencing. Fettle sets and removes it.
const FencedBy = "fettle.io/fenced-by"

// ScaleDownDisabledBefore, on a node, is the value that the annotation for its scale-down had before the
// fencing set it. Fettle sets and removes it together with FencedBy.
const ScaleDownDisabledBefore = "fettle.io/scale-down-disabled-before"

// RebootBareMetalHost, on a BareMetalHost of Metal3, has its operator keep the host off until the
// annotation is removed. The part after the slash is Fettle's own key. Fettle sets and removes it for
// a BMC that names the BareMetalHost.
const RebootBareMetalHost = "reboot.metal3.io/fettle"

// AgentSigner is the signer of the certificates of agents, which their requests name.
const AgentSigner = "fettle.io/agent"

// Annotations on the Lease of a node in the namespace fettle-agents: the promise of the node's agent. The agent sets all but
// CondemnedBy. The controller sets PromiseState and CondemnedBy.
const (
	// PromiseState is Promised, Withdrawn or Condemned.
	PromiseState = "fettle.io/promise-state"
	// PromiseBoot is the boot ID of the node. A promise is about one boot.
	PromiseBoot = "fettle.io/promise-boot"
	// PromiseTimed is "true" if the agent stops petting the watchdog when its grant has expired, and "false" otherwise.
	PromiseTimed = "fettle.io/promise-timed"
	// PromiseValidity is how long a grant allows the agent to pet the watchdog. It is a duration.
	PromiseValidity = "fettle.io/promise-validity"
	// PromiseWatchdog is the timeout of the watchdog, as read back from the device. It is a duration.
	PromiseWatchdog = "fettle.io/promise-watchdog"
	// PromiseDevice is the identity of the watchdog, as the device states it. It is for people.
	PromiseDevice = "fettle.io/promise-device"
	// PromiseWitnesses are the nodes whose agents are witnesses: up to five names in order, with commas between them.
	PromiseWitnesses = "fettle.io/promise-witnesses"
	// AgentAddress is where the agent listens for other agents: an IP address with a port. It may be false, and the certificate of the agent
	// counts.
	AgentAddress = "fettle.io/agent-address"
	// NoPromiseReason is why the agent promises nothing. Only a Lease that is Withdrawn has it, and its value is one of a closed set.
	NoPromiseReason = "fettle.io/no-promise-reason"
	// CondemnedBy is the UID of the remediation that has condemned the node.
	CondemnedBy = "fettle.io/condemned-by"
	// Witnessed is the resource version up to which the agent, as a witness of others, has read all Leases of the namespace.
	Witnessed = "fettle.io/witnessed"
)
