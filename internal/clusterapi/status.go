package clusterapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/slim"
)

// condition is a condition of either list.
type condition struct {
	Type               string      `json:"type"`
	Status             string      `json:"status"`
	Severity           string      `json:"severity"`
	Reason             string      `json:"reason"`
	Message            string      `json:"message"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	ObservedGeneration int64       `json:"observedGeneration"`
}

// machineStatus has the fields of a machine's status that are read.
type machineStatus struct {
	Conditions *[]condition      `json:"conditions"`
	NodeRef    nodeReference     `json:"nodeRef"`
	Deprecated *deprecatedStatus `json:"deprecated"`
}

type nodeReference struct {
	Name string `json:"name"`
}

type deprecatedStatus struct {
	V1Beta1 *v1beta1Status `json:"v1beta1"`
}

type v1beta1Status struct {
	Conditions     *[]condition `json:"conditions"`
	FailureReason  string       `json:"failureReason"`
	FailureMessage string       `json:"failureMessage"`
}

// setStatus sets the fields of a status, which may be nil.
func (m *Machine) setStatus(s *machineStatus) {
	if s == nil {
		return
	}
	m.present = [2]int{1, 1}
	m.setNode(s.NodeRef.Name)
	if s.Conditions != nil {
		m.present[Current] = 2
		m.Conditions = m.conditionsOf(*s.Conditions)
		m.setMarks(Current, *s.Conditions)
	}
	if s.Deprecated == nil {
		return
	}
	m.present[Deprecated] = 2
	old := s.Deprecated.V1Beta1
	if old == nil {
		return
	}
	m.present[Deprecated] = 3
	m.Failure = failureText(old.FailureReason, old.FailureMessage)
	if old.Conditions != nil {
		m.present[Deprecated] = 4
		m.setMarks(Deprecated, *old.Conditions)
	}
}

// The bounds on a machine. Cluster API's definition allows 32 current conditions.
const (
	maxConditions = 128
	maxWord       = 317
	maxFailure    = 1024
)

func failureText(reason, message string) string {
	if reason != "" && message != "" {
		return lenient.Prefix(reason+": "+message, maxFailure)
	}
	return lenient.Prefix(reason+message, maxFailure)
}

// setNode sets the name of the node, unless no node can have that name.
func (m *Machine) setNode(name string) {
	if name == m.Name {
		m.Node = m.Name // the same memory
		return
	}
	if name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
		m.addProblem(fmt.Sprintf("status.nodeRef.name is %s, which no node can be called", lenient.Quote(name)))
		return
	}
	m.Node = name
}

func (m *Machine) addProblem(problem string) {
	m.Unreadable = strings.TrimPrefix(m.Unreadable+"; "+problem, "; ")
}

// conditionsOf returns the conditions up to the bound. A machine with more is not judged.
func (m *Machine) conditionsOf(all []condition) []Condition {
	if len(all) > maxConditions {
		m.addProblem(fmt.Sprintf("status.conditions has more than the %d conditions that Fettle reads of a machine", maxConditions))
		all = all[:maxConditions]
	}
	conditions := make([]Condition, len(all))
	for i := range all {
		c := &all[i]
		if len(c.Type) > maxWord || len(c.Status) > maxWord {
			m.addProblem(fmt.Sprintf("status.conditions[%d] has a type or status longer than the %d bytes that Fettle reads", i, maxWord))
			return conditions[:i]
		}
		conditions[i].said = slim.InternPair(c.Type, c.Status)
		if at := c.LastTransitionTime.Time; !at.IsZero() {
			conditions[i].since = at.Add(time.Second - 1).Unix()
		}
	}
	return conditions
}

// setMarks stores the first condition of each type. Only the deprecated list can have more, and its readers use the
// first too.
func (m *Machine) setMarks(in List, all []condition) {
	for i := range all {
		c := &all[i]
		if !slices.Contains(markTypes[:], c.Type) || m.Mark(in, c.Type) != nil {
			continue
		}
		m.Marks = append(m.Marks, Mark{
			In: in, Type: slim.Intern(c.Type), Since: c.LastTransitionTime.Time, Generation: c.ObservedGeneration, at: i,
			ConditionContent: shared(contentOf(c)),
		})
	}
	m.Marks = slices.Clip(m.Marks)
}

// contentOf returns the content of a condition, as much as both lists accept.
func contentOf(c *condition) ConditionContent {
	return ConditionContent{
		Status: slim.Intern(lenient.Prefix(c.Status, maxMessage)), Severity: slim.Intern(lenient.Prefix(c.Severity, maxMessage)),
		Reason: slim.Intern(lenient.Prefix(c.Reason, maxMessage)), Message: lenient.Prefix(c.Message, maxMessage),
	}
}

// shared returns the shared copy of the content that nearly all machines have, since nearly all are healthy.
func shared(w ConditionContent) *ConditionContent {
	for i := range healthyContent {
		if healthyContent[i] == w {
			return &healthyContent[i]
		}
	}
	return &w
}

// rawField is a field that is decoded later. A machine that fails to decode would end the list and the watch of all
// machines. So a field that can't be decoded is absent, and a problem of the machine, which is then not judged.
type rawField struct{ body []byte }

// UnmarshalJSON never fails.
func (l *rawField) UnmarshalJSON(body []byte) error {
	l.body = slices.Clone(body)
	return nil
}

// given reports whether the field exists and is not null.
func (l *rawField) given() bool { return len(l.body) > 0 && string(l.body) != "null" }

// readFieldByField decodes each field on its own, so that a field that can't be decoded hides no other.
func readFieldByField(l rawField) (s *machineStatus, problem string) {
	if !l.given() {
		return nil, ""
	}
	var fields map[string]json.RawMessage
	if utiljson.Unmarshal(l.body, &fields) != nil {
		return nil, fmt.Sprintf("status is %s and not an object", lenient.Excerpt(string(l.body)))
	}
	var problems []string
	s = &machineStatus{
		Conditions: readField[*[]condition](fields, "conditions", "a list of conditions", &problems),
		NodeRef:    readField[nodeReference](fields, "nodeRef", "a reference such as {name: worker-1}", &problems),
		Deprecated: readField[*deprecatedStatus](fields, "deprecated", "an object with conditions of v1beta1", &problems),
	}
	return s, strings.Join(problems, "; ")
}

func readField[T any](fields map[string]json.RawMessage, name, give string, problems *[]string) T {
	var into, nothing T
	if value, set := fields[name]; set && utiljson.Unmarshal(value, &into) != nil {
		*problems = append(*problems, fmt.Sprintf("status.%s is %s and can't be read; it should be %s", name, lenient.Excerpt(string(value)), give))
		return nothing
	}
	return into
}
