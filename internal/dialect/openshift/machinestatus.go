package openshift

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fettle-io/fettle/internal/lenient"
)

// plainStatus is the part of a machine's status that decisions read.
type plainStatus struct {
	Phase       string        `json:"phase"`
	LastUpdated metav1.Time   `json:"lastUpdated"`
	NodeRef     nodeReference `json:"nodeRef"`

	// unreadable names the fields that can't be read, and valid values for them. It is empty if all
	// fields can be read.
	unreadable string
}

type nodeReference struct {
	Name string `json:"name"`
}

// machineStatus is a status whose decoding never fails. Other controllers write machines, and their
// definition may allow any content. An object that fails to decode would end the list and the watch
// of all other machines. So a field that can't be read counts as absent and is named in unreadable,
// and the machine is not judged.
type machineStatus struct{ plainStatus }

// UnmarshalJSON never fails.
func (s *machineStatus) UnmarshalJSON(body []byte) error {
	s.plainStatus = readFieldByField(body)
	return nil
}

// checkNode clears a node reference whose name no node can have.
func (s *plainStatus) checkNode() {
	name := s.NodeRef.Name
	if name == "" || len(validation.IsDNS1123Subdomain(name)) == 0 {
		return
	}
	s.NodeRef.Name = ""
	s.addProblem(fmt.Sprintf("status.nodeRef.name is %s, which no node can be called", lenient.Quote(name)))
}

// addProblem adds a problem to unreadable. It ignores "".
func (s *plainStatus) addProblem(problem string) {
	if problem != "" {
		s.unreadable = strings.TrimPrefix(s.unreadable+"; "+problem, "; ")
	}
}

// readFieldByField decodes each field by itself, so that an invalid field hides no other field.
func readFieldByField(body []byte) plainStatus {
	var fields map[string]json.RawMessage
	if utiljson.Unmarshal(body, &fields) != nil {
		return plainStatus{unreadable: fmt.Sprintf("status is %s and not an object", lenient.Excerpt(string(body)))}
	}
	var problems []string
	s := plainStatus{
		Phase:       readField[string](fields, "phase", "a word such as Running", &problems),
		LastUpdated: readField[metav1.Time](fields, "lastUpdated", "a time such as 2026-08-03T12:00:00Z", &problems),
		NodeRef:     readField[nodeReference](fields, "nodeRef", "a reference such as {kind: Node, name: worker-1}", &problems),
	}
	s.unreadable = strings.Join(problems, "; ")
	return s
}

func readField[T any](fields map[string]json.RawMessage, name, give string, problems *[]string) T {
	var into, nothing T
	if value, set := fields[name]; set && utiljson.Unmarshal(value, &into) != nil {
		*problems = append(*problems, fmt.Sprintf("status.%s is %s and not %s", name, lenient.Excerpt(string(value)), give))
		return nothing
	}
	return into
}
