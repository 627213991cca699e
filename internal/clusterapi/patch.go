package clusterapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/internal/sanitize"
)

// Change is what is to become of one condition in one list.
type Change struct {
	In   List
	Type string
	// Content are what the condition is to say; nil has it taken away.
	Content *ConditionContent
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patchedCondition is a condition as it is written, of either list.
type patchedCondition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	Severity           string `json:"severity,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime"`
	Reason             string `json:"reason,omitempty"`
	// Message must be there in current conditions, and must not be empty in deprecated ones.
	Message *string `json:"message,omitempty"`
}

// paths are how the lists are reached.
var paths = [...][]string{Current: {"status", "conditions"}, Deprecated: {"status", "deprecated", "v1beta1", "conditions"}}

// maxMessage is as long a message as both lists take.
const maxMessage = 10240

// Patch renders the JSON patch of the machine's status that makes the changes, nil when nothing is to change. It goes
// by places in the lists as they were read, so it insists on the UID and the revision that were: the API server
// refuses it for any other. Nothing is rendered for a machine that can't be read completely, since its places are not
// known.
func (m *Machine) Patch(changes []Change, now time.Time) ([]byte, error) {
	r := patchBuilder{machine: m, now: now, present: m.present}
	if m.Unreadable == "" {
		for i := range changes {
			r.render(&changes[i])
		}
	}
	body := r.operations()
	if len(body) == 0 {
		return nil, nil
	}
	only := []operation{
		{"test", "/metadata/uid", m.UID}, // to replace it would be no condition: writing a status leaves metadata alone
		{"replace", "/metadata/resourceVersion", m.ResourceVersion},
	}
	patch, err := json.Marshal(append(only, body...))
	if err != nil {
		return nil, fmt.Errorf("encoding the conditions: %w", err)
	}
	return patch, nil
}

// Differs tells whether there is anything to patch.
func (m *Machine) Differs(changes []Change) bool {
	for i := range changes {
		if mark := m.Mark(changes[i].In, changes[i].Type); m.Unreadable == "" && changes[i].differs(mark, m.Generation) {
			return true
		}
	}
	return false
}

// differs tells whether a condition of a machine is to say something else, or the same about a spec that is newer.
func (c *Change) differs(from *Mark, generation int64) bool {
	if from == nil || c.Content == nil {
		return (from == nil) != (c.Content == nil)
	}
	return *from.ConditionContent != c.content() || (c.In == Current && from.Generation != generation)
}

// content are what the condition says in its list.
func (c *Change) content() ConditionContent {
	w := *c.Content
	w.Message = sanitize.Lines(maxMessage, w.Message)
	if c.In == Current {
		w.Severity = ""
	}
	return w
}

// patchBuilder gathers operations in the order in which they leave the places of others right: what is replaced, then
// what is added at the end, then what is taken away, the last of a list first.
type patchBuilder struct {
	machine                  *Machine
	now                      time.Time
	present                  [2]int
	replaced, added, removed []operation
	removals                 []int
}

func (r *patchBuilder) render(c *Change) {
	mark := r.machine.Mark(c.In, c.Type)
	switch {
	case !c.differs(mark, r.machine.Generation):
	case c.Content == nil:
		r.remove(mark)
	case mark == nil:
		r.addPath(c.In)
		r.added = append(r.added, operation{"add", pathOf(c.In) + "/-", r.condition(c, nil)})
	default:
		r.replaced = append(r.replaced, operation{"replace", pathOf(c.In) + "/" + strconv.Itoa(mark.at), r.condition(c, mark)})
	}
}

func (r *patchBuilder) remove(mark *Mark) {
	at, _ := slices.BinarySearchFunc(r.removals, mark.at, func(a, b int) int { return b - a })
	r.removals = slices.Insert(r.removals, at, mark.at)
	r.removed = slices.Insert(r.removed, at, operation{Op: "remove", Path: pathOf(mark.In) + "/" + strconv.Itoa(mark.at)})
}

// addPath adds what is missing of the path to a list.
func (r *patchBuilder) addPath(in List) {
	path, parent := paths[in], ""
	for i, name := range path {
		parent += "/" + name
		if i < r.present[in] {
			continue
		}
		var empty any = map[string]any{}
		if i == len(path)-1 {
			empty = []any{}
		}
		r.added = append(r.added, operation{"add", parent, empty})
	}
	r.present[in] = len(path)
	r.present[1-in] = max(1, r.present[1-in])
}

func (r *patchBuilder) operations() []operation {
	return slices.Concat(r.replaced, r.added, r.removed)
}

func pathOf(in List) string { return "/" + strings.Join(paths[in], "/") }

// condition renders a condition. A current one has made a transition when its status is another, a deprecated one when
// anything about it is.
func (r *patchBuilder) condition(c *Change, was *Mark) patchedCondition {
	w := c.content()
	to := patchedCondition{Type: c.Type, Status: w.Status, Severity: w.Severity, Reason: w.Reason, Message: &w.Message}
	since := r.now
	if c.In == Current {
		to.ObservedGeneration = r.machine.Generation
		if was != nil && was.Status == w.Status && !was.Since.IsZero() {
			since = was.Since
		}
	} else if w.Message == "" {
		to.Message = nil
	}
	to.LastTransitionTime = metav1.NewTime(since).UTC().Format(time.RFC3339)
	return to
}
