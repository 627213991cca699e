package agent

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The objects of Kubernetes have here the fields that this package reads and writes. The packages of their types would add 3 MiB to what each
// agent has in memory.

// configMap is a ConfigMap.
type configMap struct {
	Data map[string]string `json:"data"`
}

// event is an Event of the group "".
type event struct {
	metav1.TypeMeta `json:",inline"`

	Metadata       objectName      `json:"metadata"`
	InvolvedObject objectReference `json:"involvedObject"`
	Reason         string          `json:"reason"`
	Message        string          `json:"message"`
	Source         eventSource     `json:"source"`
	FirstTimestamp metav1.Time     `json:"firstTimestamp"`
	LastTimestamp  metav1.Time     `json:"lastTimestamp"`
	Count          int32           `json:"count"`
	Type           string          `json:"type"`
}

// Types of events.
const (
	eventNormal  = "Normal"
	eventWarning = "Warning"
)

// objectName is the metadata of an object that is created.
type objectName struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// objectReference names an object.
type objectReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// eventSource is who reports an event.
type eventSource struct {
	Component string `json:"component"`
	Host      string `json:"host"`
}

// certificateRequest is a CertificateSigningRequest.
type certificateRequest struct {
	metav1.TypeMeta `json:",inline"`

	Metadata objectName    `json:"metadata"`
	Spec     requestSpec   `json:"spec"`
	Status   requestStatus `json:"status,omitzero"`
}

// requestSpec is what is requested.
type requestSpec struct {
	SignerName string   `json:"signerName"`
	Request    []byte   `json:"request"`
	Usages     []string `json:"usages"`
}

// requestStatus is the answer to a request.
type requestStatus struct {
	Certificate []byte             `json:"certificate,omitempty"`
	Conditions  []requestCondition `json:"conditions,omitempty"`
}

// requestCondition is one condition of an answer.
type requestCondition struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Conditions of requests that are not signed.
const (
	requestDenied = "Denied"
	requestFailed = "Failed"
)

// The usages of the certificate of an agent, which asks other agents and answers them.
var usages = [...]string{"digital signature", "client auth", "server auth"}
