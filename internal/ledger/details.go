package ledger

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
)

// Details is a Repair as people are told of it: what the core reads, and the words beside that.
type Details struct {
	core.Repair

	// Cluster is the one that the target belongs to.
	Cluster ClusterKey
	// Phase is as written; empty when there is none.
	Phase string
	// Reason and Message say why the target was unhealthy, since UnhealthySince, which is zero when that is not
	// known.
	Reason, Message string
	UnhealthySince  time.Time
	// Progress says what happened last, and LastError what the last refused call was refused with.
	Progress, LastError string
	// Problem says what can't be read of it, and is empty when all can. Ignored is set when nothing follows from it, since it
	// does not say what is repaired, or Fettle has not recorded it.
	Problem string
	Ignored bool
}

// ReadDetails reads a Repair that anybody may have written, for those who list repairs and keep no ledger. It reads
// them as the ledger does: what can't be read is absent. Home is the namespace of Repairs whose targets have none; it is empty
// where that is not known, and then these count wherever they are.
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
