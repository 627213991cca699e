package cli

// CheckResult is the answer to fettle check.
type CheckResult struct {
	Header

	// Outcome is Passed, Problems or NotChecked, and Message says in a sentence why.
	Outcome   string     `json:"outcome"`
	Message   string     `json:"message"`
	Documents []Document `json:"documents"`
	// Grants are the rights that the controller lacks to use what the health checks name.
	Grants []Grant `json:"grants,omitempty"`
}

// Grant has the rights that the controller lacks to use a kind of templates and the kind of its requests.
type Grant struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Lacks are the verbs and resources that the controller may not use.
	Lacks []string `json:"lacks"`
	// ClusterRole grants them, once it is applied.
	ClusterRole ClusterRole `json:"clusterRole"`
}

// ClusterRole is a ClusterRole of Kubernetes.
type ClusterRole struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Metadata   RoleMetadata `json:"metadata"`
	Rules      []PolicyRule `json:"rules"`
}

// RoleMetadata names a ClusterRole.
type RoleMetadata struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
}

// PolicyRule is one rule of a ClusterRole.
type PolicyRule struct {
	APIGroups []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
}

// These are the outcomes of a check.
const (
	passed     = "Passed"
	problems   = "Problems"
	notChecked = "NotChecked"
)

// Document is one YAML document of a file.
type Document struct {
	File string `json:"file"`
	// Line is where the document begins.
	Line      int    `json:"line"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Skipped says why it was not checked.
	Skipped  string    `json:"skipped,omitempty"`
	Problems []Finding `json:"problems"`
	Warnings []Finding `json:"warnings"`
	// Admission is Accepted, Refused or NotAsked: the API server's answer to a dry run.
	Admission        string `json:"admission,omitempty"`
	AdmissionMessage string `json:"admissionMessage,omitempty"`
	// Unchecked says what about it could not be checked, and why.
	Unchecked []string `json:"unchecked,omitempty"`
	Effect    *Effect  `json:"effect,omitempty"`
}

// Finding is a problem or a warning about a document.
type Finding struct {
	// Line is the line of the file, or 0.
	Line    int    `json:"line,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// Effect is what a health check would do now, if it were applied.
type Effect struct {
	// Exists is set when it would replace a health check that is there.
	Exists bool `json:"exists"`
	// HealthCheck is its state.
	HealthCheck HealthCheck `json:"healthCheck"`
	// Selected are the first names of the selected targets. ControlPlane counts those of the control plane.
	Selected     []string `json:"selected"`
	ControlPlane int      `json:"controlPlane,omitempty"`
	// NotHealthy are the first targets that it would not find healthy.
	NotHealthy []Target `json:"notHealthy"`
	// RepairsNow are the names that would be repaired at once, in order.
	RepairsNow []string `json:"repairsNow"`
	// OthersRepair are the targets that another health check would have repaired at once.
	OthersRepair []string  `json:"othersRepair,omitempty"`
	Overlaps     []Overlap `json:"overlaps,omitempty"`
	// Unknown says which facts the answer needs and could not be read.
	Unknown []string `json:"unknown,omitempty"`
}

// Overlap is another health check that selects some of the same targets.
type Overlap struct {
	HealthCheck     string `json:"healthCheck"`
	HealthCheckKind string `json:"healthCheckKind"`
	Shared          int    `json:"shared"`
	// Leads is the older one, which leads where both find a target unhealthy.
	Leads     string `json:"leads"`
	LeadsKind string `json:"leadsKind"`
}
