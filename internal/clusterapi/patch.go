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

// Change is the wanted content of one condition in one list.
type Change struct {
	In   List
	Type string
	// Content is the content of the condition. The condition is removed if it is nil.
	Content *ConditionContent
}

// operation is an operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patchedCondition is a condition of either list as it is written.
type patchedCondition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	Severity           string `json:"severity,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime"`
	Reason             string `json:"reason,omitempty"`
	// Message is required in current conditions, and must not be empty in deprecated ones.
	Message *string `json:"message,omitempty"`
}

// paths are the paths of the lists.
var paths = [...][]string{Current: {"status", "conditions"}, Deprecated: {"status", "deprecated", "v1beta1", "conditions"}}

// maxMessage is the length of the longest message that both lists accept.
const maxMessage = 10240

// Patch returns the JSON patch of the machine's status that makes the changes, or nil if there is nothing to
// change. The patch refers to positions in the lists. So it tests the UID and the resource version: the API server
// refuses it for any other. There is no patch for a machine with a field that can't be read, since its positions
// are unknown.
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
		{"test", "/metadata/uid", m.UID}, // replacing it would test nothing, since writing a status ignores metadata
		{"replace", "/metadata/resourceVersion", m.ResourceVersion},
	}
	patch, err := json.Marshal(append(only, body...))
	if err != nil {
		return nil, fmt.Errorf("encoding the conditions: %w", err)
	}
	return patch, nil
}

// Differs reports whether there is anything to patch.
func (m *Machine) Differs(changes []Change) bool {
	for i := range changes {
		if mark := m.Mark(changes[i].In, changes[i].Type); m.Unreadable == "" && changes[i].differs(mark, m.Generation) {
			return true
		}
	}
	return false
}

// differs reports whether the change alters a condition, or confirms it for a newer generation of the spec.
func (c *Change) differs(from *Mark, generation int64) bool {
	if from == nil || c.Content == nil {
		return (from == nil) != (c.Content == nil)
	}
	return *from.ConditionContent != c.content() || (c.In == Current && from.Generation != generation)
}

// content returns the content of the condition for its list.
func (c *Change) content() ConditionContent {
	w := *c.Content
	w.Message = sanitize.Lines(maxMessage, w.Message)
	if c.In == Current {
		w.Severity = ""
	}
	return w
}

// patchBuilder collects operations in an order that keeps positions valid: replacements, then additions at the end,
// then removals, the last of a list first.
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

// addPath adds the missing parts of the path to a list.
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

// condition renders a condition. A current condition has a transition when its status changes. A deprecated one has
// a transition with every change.
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
