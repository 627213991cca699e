package ledger

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
)

// Details is a Repair with its texts for users, beside the fields that the core reads.
type Details struct {
	core.Repair

	// Cluster is the cluster of the target.
	Cluster core.ClusterKey
	// Phase is the phase as written, and empty if there is none.
	Phase string
	// Reason and Message say why the target was unhealthy, since UnhealthySince. That is zero if it is unknown.
	Reason, Message string
	UnhealthySince  time.Time
	// Progress says what happened last. LastError is the error of the last call of the remedy.
	Progress, LastError string
	// Problem says which fields can't be read, and is empty if all can. Ignored is set if the Repair doesn't count,
	// since it has no target or Fettle has not recorded it.
	Problem string
	Ignored bool
}

// ReadDetails reads a Repair that any user may have written, for readers without a ledger. As in the ledger, a
// field that can't be read is absent. Home is the namespace for Repairs whose targets have none. If it is empty,
// the namespace is unknown, and such Repairs count in any namespace.
func ReadDetails(u *unstructured.Unstructured, home string) Details {
	p := readRecord(u, home)
	spec, _ := lenient.Part[struct {
		Reason         string       `json:"reason"`
		Message        string       `json:"message"`
		UnhealthySince *metav1.Time `json:"unhealthySince"`
	}](u.Object, "spec")
	status, _ := lenient.Part[struct {
		Phase     string `json:"phase"`
		Message   string `json:"message"`
		LastError string `json:"lastError"`
	}](u.Object, "status")
	a := Details{
		Repair: p.repair, Cluster: p.cluster, Phase: status.Phase, Reason: spec.Reason, Message: spec.Message,
		Progress: status.Message, LastError: status.LastError, Problem: p.problem, Ignored: !p.counts(),
	}
	if spec.UnhealthySince != nil {
		a.UnhealthySince = spec.UnhealthySince.Time
	}
	return a
}
