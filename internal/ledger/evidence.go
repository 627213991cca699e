package ledger

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// evidence is what the ledger reads of the evidence of one power cycle.
type evidence struct {
	Remediation  v1alpha1.ObjectReference `json:"remediation"`
	PowerCycle   int32                    `json:"powerCycle"`
	Method       string                   `json:"method"`
	BMC          string                   `json:"bmc"`
	Protocol     string                   `json:"protocol"`
	BootIDBefore string                   `json:"bootIDBefore"`
	BootIDAfter  string                   `json:"bootIDAfter"`
	CommandedAt  *metav1.Time             `json:"commandedAt"`
	ProvenAt     *metav1.Time             `json:"provenAt"`
	ReleasedAt   *metav1.Time             `json:"releasedAt"`
	BackAt       *metav1.Time             `json:"backAt"`
}

// mostOfWord bounds each text of evidence in a Repair that any user may have written.
const mostOfWord = 253

func renderEvidence(e *core.Evidence) v1alpha1.FencingEvidence {
	return v1alpha1.FencingEvidence{
		Remediation: reference(e.Request), PowerCycle: int32(min(e.Cycle, 1<<30)), //nolint:gosec // bounded on the same line
		Method: e.Method, BMC: e.Means, Protocol: e.Protocol, BootIDBefore: e.BootIDBefore, BootIDAfter: e.BootIDAfter,
		CommandedAt: microTime(e.Commanded), ProvenAt: microTime(e.Proven), ReleasedAt: microTime(e.Released), BackAt: microTime(e.Back),
	}
}

// evidenceStatus returns evidence as the cache keeps it.
func evidenceStatus(written []v1alpha1.FencingEvidence) []evidence {
	var out []evidence
	for _, e := range written {
		out = append(out, evidence{
			Remediation: e.Remediation, PowerCycle: e.PowerCycle, Method: e.Method, BMC: e.BMC, Protocol: e.Protocol,
			BootIDBefore: e.BootIDBefore, BootIDAfter: e.BootIDAfter,
			CommandedAt: (*metav1.Time)(e.CommandedAt), ProvenAt: (*metav1.Time)(e.ProvenAt),
			ReleasedAt: (*metav1.Time)(e.ReleasedAt), BackAt: (*metav1.Time)(e.BackAt),
		})
	}
	return out
}

// evidenceOf returns the evidence that a Repair records, within its bounds.
func evidenceOf(recorded []evidence) []core.Evidence {
	var out []core.Evidence
	for _, e := range recorded[max(0, len(recorded)-core.MaxEvidence):] {
		r := e.Remediation
		if r.Kind == "" || r.Name == "" || r.UID == "" {
			continue // the API server would refuse it
		}
		out = append(out, core.Evidence{
			Request: core.ID{Kind: word(r.Kind), Namespace: word(r.Namespace), Name: word(r.Name), UID: word(r.UID)},
			Cycle:   int(e.PowerCycle), Method: word(e.Method), Means: word(e.BMC), Protocol: word(e.Protocol),
			BootIDBefore: word(e.BootIDBefore), BootIDAfter: word(e.BootIDAfter),
			Commanded: instant(e.CommandedAt), Proven: instant(e.ProvenAt), Released: instant(e.ReleasedAt), Back: instant(e.BackAt),
		})
	}
	return out
}

func word(text string) string { return sanitize.Line(mostOfWord, text) }

// instant returns an instant of evidence. It is zero if it is missing, or if it could not be written again.
func instant(at *metav1.Time) time.Time {
	if at == nil || at.UTC().Year() < 1970 || at.UTC().Year() > 9999 {
		return time.Time{}
	}
	return at.UTC()
}
