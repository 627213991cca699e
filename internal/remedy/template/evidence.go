package template

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// powerKind is the only kind whose evidence counts. An admission policy lets no tenant write its status.
const powerKind = "PowerRemediation"

// The bounds on evidence. The Repair must accept all that is read, so that its other progress can be written.
const (
	mostOfName = 253
	mostOfWord = 64
	mostCycles = 1 << 30
)

// evidenceOf returns how a PowerRemediation has fenced its node. It is empty for objects of other kinds, and while no power
// was commanded off. A field of a wrong type counts as absent.
func evidenceOf(u *unstructured.Unstructured) core.Evidence {
	if kind := u.GroupVersionKind(); kind.Group != v1alpha1.GroupVersion.Group || kind.Kind != powerKind || u.GetUID() == "" {
		return core.Evidence{}
	}
	status, _ := u.Object["status"].(map[string]any)
	node, _ := status["node"].(map[string]any)
	bmc, _ := status["bmc"].(map[string]any)
	proof, _ := status["proof"].(map[string]any)
	cycle, _ := status["attempt"].(int64)
	e := core.Evidence{
		Request:      core.ID{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID())},
		Cycle:        int(min(max(cycle, 0), mostCycles)),
		Means:        word(bmc, "name", mostOfName),
		Protocol:     word(status, "protocol", mostOfWord),
		BootIDBefore: word(node, "bootID", mostOfWord), BootIDAfter: word(node, "backBootID", mostOfWord),
		Commanded: instant(status, "commandedAt"), Released: instant(status, "releasedAt"), Back: instant(status, "backAt"),
	}
	if kind, at := word(proof, "kind", mostOfWord), instant(proof, "at"); kind != "" && !at.IsZero() {
		e.Method, e.Proven = kind, at
		e.BootIDAfter = cmp.Or(e.BootIDAfter, word(proof, "bootID", mostOfWord))
	}
	if e.Commanded.IsZero() && e.Method == "" {
		return core.Evidence{}
	}
	return e
}

// word returns a field as one line of bounded length, and an empty text for anything but a text.
func word(fields map[string]any, name string, most int) string {
	text, _ := fields[name].(string)
	return sanitize.Line(most, text)
}

// instant returns a time in whole microseconds, as a Repair has it. It is zero for a time that can't be parsed, or whose
// year a Repair could not have.
func instant(fields map[string]any, name string) time.Time {
	text, _ := fields[name].(string)
	at, _ := time.Parse(time.RFC3339, text) // a time that can't be parsed is of the year 1
	if at = at.UTC().Truncate(time.Microsecond); at.Year() < 1970 || at.Year() > 9999 {
		return time.Time{}
	}
	return at
}
