package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReachableCondition of a BMC is True when the last operation on it succeeded. It is False with the
// reason of the failure otherwise, and Unknown until the first operation.
const ReachableCondition = "Reachable"

// Keys of the Secret with the credentials of a BMC.
const (
	// UsernameKey is the key of the user name.
	UsernameKey = "username"
	// PasswordKey is the key of the password.
	PasswordKey = "password"
)

// BMC is the baseboard management controller (BMC) of the host of one node, or the BareMetalHost by
// which Metal3 speaks to it. Fettle reads and commands the power of the host through it, for the
// PowerRemediations of that node. It reads the BMCs of one namespace, which the flag --bmc-namespace
// names, and ignores the others. A user who may write BMCs decides which host is powered off in the
// place of a node.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=bmcs,singular=bmc,categories=fettle
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster.name`,priority=1
// +kubebuilder:printcolumn:name="Power",type=string,JSONPath=`.status.power`
// +kubebuilder:printcolumn:name="Reachable",type=string,JSONPath=`.status.conditions[?(@.type=="Reachable")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Reachable")].reason`
// +kubebuilder:printcolumn:name="Held-Until",type=string,JSONPath=`.status.authenticationHeldUntil`,priority=1
// +kubebuilder:printcolumn:name="Domain",type=string,JSONPath=`.spec.domain`,priority=1
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.address`
// +kubebuilder:printcolumn:name="BareMetalHost",type=string,JSONPath=`.spec.bareMetalHost.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BMC struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is how the BMC is reached.
	// +required
	Spec BMCSpec `json:"spec"`
	// status is what Fettle knows of the BMC. Only Fettle writes it.
	// +optional
	Status BMCStatus `json:"status,omitempty"`
}

// BMCSpec is how a BMC is reached: by an address with credentials, or through a BareMetalHost.
//
// +kubebuilder:validation:XValidation:rule="has(self.address) != has(self.bareMetalHost)",message="give either address with credentialsName, or bareMetalHost"
// +kubebuilder:validation:XValidation:rule="has(self.bareMetalHost) || has(self.credentialsName)",message="credentialsName is missing: it names the Secret with the keys username and password"
// +kubebuilder:validation:XValidation:rule="!has(self.bareMetalHost) || !has(self.credentialsName) && !has(self.system) && !has(self.tls)",message="credentialsName, system and tls are for an address; leave them out with bareMetalHost, whose BMC Metal3 speaks to"
// +kubebuilder:validation:XValidation:rule="!has(self.system) || !has(self.address) || (self.address.startsWith('ipmi://') ? false : !self.address.contains('/Systems/'))",message="system names the system of a Redfish address without a path; leave it out, or leave the path out of the address"
// +kubebuilder:validation:XValidation:rule="!has(self.tls) || !has(self.address) || !self.address.startsWith('ipmi://') && !self.address.contains('+http://')",message="tls is for Redfish over TLS; leave it out for ipmi:// and +http://"
type BMCSpec struct {
	// nodeName is the name of the node on this host. Two BMCs must not name the same node of one
	// cluster.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	NodeName string `json:"nodeName"`
	// cluster is the workload cluster of Cluster API that the node belongs to. Without it, the node
	// belongs to the cluster that Fettle runs in. Machines of other clusters never reach this host.
	// +optional
	Cluster *BMCCluster `json:"cluster,omitempty"`
	// address of the BMC, such as redfish://HOST/redfish/v1/Systems/ID or ipmi://HOST:PORT. The
	// schemes for Redfish are redfish, idrac-redfish, ilo5-redfish, redfish-virtualmedia,
	// idrac-virtualmedia and ilo5-virtualmedia, each also with +http or +https. The path may be left
	// out if the BMC has one system. Two BMCs must not have the same address. It needs credentialsName.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^((redfish|idrac-redfish|ilo5-redfish|redfish-virtualmedia|idrac-virtualmedia|ilo5-virtualmedia)([+]https?)?|ipmi)://[^/]')",message="the address must be redfish://HOST/redfish/v1/Systems/ID, with one of the schemes that docs/remedies/power.md lists, or ipmi://HOST:PORT"
	// +kubebuilder:validation:XValidation:rule="!self.contains('@') && !self.contains('?') && !self.contains('#')",message="the address must have no user name, query or fragment; credentials belong in the Secret that spec.credentialsName names"
	// +optional
	Address string `json:"address,omitempty"`
	// system is the ID of the system, for a Redfish address without a path.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_~:-][A-Za-z0-9._~:-]*$`
	// +optional
	System string `json:"system,omitempty"`
	// credentialsName is the name of a Secret in the namespace of the BMC. It has the keys username
	// and password.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	CredentialsName string `json:"credentialsName,omitempty"`
	// tls is which certificate of the BMC is trusted. By default an authority of the
	// operating system must have signed it.
	// +optional
	TLS *BMCTLS `json:"tls,omitempty"`
	// bareMetalHost is the BareMetalHost of the host (metal3.io), in place of an address. Fettle
	// requests from Metal3 that it powers the host off and on, by an annotation of its own. Two BMCs must not name the same
	// BareMetalHost.
	// +optional
	BareMetalHost *BareMetalHostReference `json:"bareMetalHost,omitempty"`
	// domain is what the host shares with others, such as a rack or a power strip. Fettle powers on
	// one host of a domain every five seconds, so that no fuse blows.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Domain string `json:"domain,omitempty"`
	// systemUUIDCheck is whether the UUID of the Redfish system must be that of the node's host
	// (status.nodeInfo.systemUUID), where both are known. Enabled by default. Disable it for a BMC that
	// reports a wrong UUID.
	// +kubebuilder:validation:Enum=Enabled;Disabled
	// +optional
	SystemUUIDCheck SystemUUIDCheck `json:"systemUUIDCheck,omitempty"`
}

// BMCCluster names a workload cluster of Cluster API.
type BMCCluster struct {
	// namespace of the Cluster.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace"`
	// name of the Cluster.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// BareMetalHostReference names a BareMetalHost.
type BareMetalHostReference struct {
	// namespace of the BareMetalHost.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace"`
	// name of the BareMetalHost.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// SystemUUIDCheck is whether UUIDs of systems are compared.
type SystemUUIDCheck string

// Values of SystemUUIDCheck.
const (
	SystemUUIDCheckEnabled  SystemUUIDCheck = "Enabled"
	SystemUUIDCheckDisabled SystemUUIDCheck = "Disabled"
)

// BMCTLS is which certificate of a BMC is trusted.
//
// +kubebuilder:validation:XValidation:rule="has(self.caBundle) != has(self.fingerprint)",message="give either caBundle or fingerprint"
type BMCTLS struct {
	// caBundle has the certificates of the authorities that sign the certificate of the BMC, as PEM.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	CABundle string `json:"caBundle,omitempty"`
	// fingerprint is the SHA-256 fingerprint of the certificate of the BMC, in hexadecimal digits
	// with or without colons.
	// +kubebuilder:validation:MaxLength=95
	// +kubebuilder:validation:Pattern=`^([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}$`
	// +optional
	Fingerprint string `json:"fingerprint,omitempty"`
}

// HostPower is the power of a host as its BMC reports it: On, Off, or Unknown for every other state.
type HostPower string

// Values of HostPower.
const (
	HostOn           HostPower = "On"
	HostOff          HostPower = "Off"
	HostPowerUnknown HostPower = "Unknown"
)

// BMCStatus is what Fettle knows of a BMC.
type BMCStatus struct {
	// power is the power of the host when Fettle read it last. A remediation never relies on it.
	// +optional
	Power HostPower `json:"power,omitempty"`
	// systemUUID is the UUID of the Redfish system, if the BMC reports one.
	// +optional
	SystemUUID string `json:"systemUUID,omitempty"`
	// refusedLogins is how many logins in succession the BMC has refused.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	RefusedLogins int32 `json:"refusedLogins,omitempty"`
	// authenticationHeldSince is since when Fettle tries no login, because the BMC has refused two
	// in succession. BMCs lock accounts.
	// +optional
	AuthenticationHeldSince *metav1.Time `json:"authenticationHeldSince,omitempty"`
	// authenticationHeldUntil is until when Fettle tries no login, unless the credentials change.
	// +optional
	AuthenticationHeldUntil *metav1.Time `json:"authenticationHeldUntil,omitempty"`
	// credentialsVersion is the resourceVersion of the Secret that the last login used.
	// +optional
	CredentialsVersion string `json:"credentialsVersion,omitempty"`
	// conditions are Reachable.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BMCList is a list of BMCs.
// +kubebuilder:object:root=true
type BMCList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BMC `json:"items"`
}
