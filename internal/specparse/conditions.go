package specparse

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// The bounds on an annotation with groups of conditions. A pass compares each target with all of them.
const (
	maxGroupBytes = lenient.MaxAnnotation
	maxGroups     = 16
	maxTests      = 8
	// maxRemembered bounds the tests whose start Fettle stores for each target.
	maxRemembered = 8
	// maxFault bounds the quoted error of the YAML parser.
	maxFault = 200
)

const (
	groupsExample = `[{all: [{type: Ready, status: "False"}, {type: KernelDeadlock, missing: true}], for: 10m}]`
	statusExample = `{type: Ready, status: "False"}`
	testExample   = statusExample + " or {type: KernelDeadlock, missing: true}"
)

var (
	typePattern   = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_./]{0,314}[A-Za-z0-9])?$`)
	reasonPattern = regexp.MustCompile(`^[-A-Za-z0-9_.,:*]{1,128}$`)
)

// Groups reads an annotation with groups of conditions, as YAML or JSON. All conditions of a group must hold
// together. If any group can't be read, Groups returns none.
func Groups(annotations map[string]string, key string) ([]core.ConditionGroup, error) {
	text, set := annotations[key]
	if !set {
		return nil, nil
	}
	entries, err := groupEntries(text)
	if err != nil {
		return nil, fmt.Errorf("annotation %s %w", key, err)
	}
	r := &groupReader{key: key}
	groups := make([]core.ConditionGroup, len(entries))
	for i, entry := range entries {
		groups[i] = r.group(fmt.Sprintf("[%d]", i), entry)
	}
	if err := errors.Join(r.problems...); err != nil {
		return nil, err
	}
	if n := remembered(groups); n > maxRemembered {
		return nil, fmt.Errorf("annotation %s requires %d conditions that are missing or have a reason; give at most %d", key, n, maxRemembered)
	}
	return groups, nil
}

// remembered counts the tests whose start Fettle has to store.
func remembered(groups []core.ConditionGroup) int {
	n := 0
	for i := range groups {
		for j := range groups[i].Tests {
			if groups[i].Tests[j].Remembered() {
				n++
			}
		}
	}
	return n
}

// groupEntries returns the entries of the list. It refuses anchors, by which a short text can stand for a long one.
func groupEntries(text string) ([]any, error) {
	switch {
	case len(text) > maxGroupBytes:
		return nil, fmt.Errorf("has %d bytes; give at most %d", len(text), maxGroupBytes)
	case strings.Contains(text, "&"):
		return nil, errors.New("has the character &, which is not read; write each entry out")
	}
	var value any
	body, err := yaml.YAMLToJSONStrict([]byte(text))
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(body, &value)
	}
	if err != nil {
		return nil, fmt.Errorf("is not YAML (%s); give a list such as %s", sanitize.Line(maxFault, err.Error()), groupsExample)
	}
	entries, _ := value.([]any)
	switch {
	case len(entries) == 0:
		return nil, fmt.Errorf("has no list of entries; give one such as %s, or remove the annotation", groupsExample)
	case len(entries) > maxGroups:
		return nil, fmt.Errorf("has %d entries; give at most %d", len(entries), maxGroups)
	}
	return entries, nil
}

// groupReader reads the entries of an annotation and collects the errors.
type groupReader struct {
	key      string
	problems []error
}

// addFault adds an error about a place in the annotation.
func (r *groupReader) addFault(at, format string, args ...any) {
	r.problems = append(r.problems, fmt.Errorf("annotation %s %s %s", r.key, at, fmt.Sprintf(format, args...)))
}

// fields returns an entry as an object, and false if it has any fields but the known ones.
func (r *groupReader) fields(at string, entry any, example string, known ...string) (map[string]any, bool) {
	fields, isObject := entry.(map[string]any)
	if !isObject {
		r.addFault(at, "is %s; give an object such as %s", describe(entry), example)
		return nil, false
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, name) {
			r.addFault(at, "has the field %s, which means nothing; the fields are %s", lenient.Quote(name), strings.Join(known, ", "))
			return nil, false
		}
	}
	return fields, true
}

func (r *groupReader) group(at string, entry any) core.ConditionGroup {
	fields, ok := r.fields(at, entry, groupsExample[1:len(groupsExample)-1], "all", "for")
	if !ok {
		return core.ConditionGroup{}
	}
	g := core.ConditionGroup{For: r.duration(at+".for", fields["for"])}
	all, _ := fields["all"].([]any)
	switch {
	case len(all) == 0:
		r.addFault(at+".all", "is no list of conditions; give one such as [%s]", statusExample)
	case len(all) > maxTests:
		r.addFault(at+".all", "has %d conditions; give at most %d", len(all), maxTests)
		return g
	}
	named := map[string]bool{}
	for i, c := range all {
		place := fmt.Sprintf("%s.all[%d]", at, i)
		test := r.test(place, c)
		if test.Type != "" && named[test.Type] {
			r.addFault(place, "names condition %s once more; give each condition once", test.Type)
		}
		named[test.Type] = true
		g.Tests = append(g.Tests, test)
	}
	return g
}

// duration reads how long a group must hold. There is no default, since a new node lacks conditions that its agents
// set a little later.
func (r *groupReader) duration(at string, v any) time.Duration {
	text, _ := v.(string)
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		r.addFault(at, "is %s; give a duration above zero, such as 10m", describe(v))
	}
	return d
}

func (r *groupReader) test(at string, entry any) core.ConditionTest {
	fields, ok := r.fields(at, entry, testExample, "type", "status", "reason", "missing")
	if !ok {
		return core.ConditionTest{}
	}
	kind, _ := fields["type"].(string)
	if !typePattern.MatchString(kind) {
		r.addFault(at+".type", "is %s; give the type of a condition of nodes, such as Ready", describe(fields["type"]))
		kind = ""
	}
	missing, _ := fields["missing"].(bool)
	_, hasStatus := fields["status"]
	_, hasReason := fields["reason"]
	switch _, given := fields["missing"]; {
	case given && !missing:
		r.addFault(at+".missing", "is %s; give true, or remove it", describe(fields["missing"]))
	case missing && (hasStatus || hasReason):
		r.addFault(at, "requires a condition to be missing, and its status or reason; give %s", testExample)
	case missing:
		return core.ConditionTest{Type: kind, Missing: true}
	}
	test := core.ConditionTest{Type: kind, Status: r.status(at+".status", fields["status"])}
	if hasReason {
		test.Reason = r.reason(at+".reason", fields["reason"])
	}
	return test
}

func (r *groupReader) status(at string, v any) string {
	s, _ := v.(string)
	if s != statusTrue && s != statusFalse && s != statusUnknown {
		r.addFault(at, `is %s; give "True", "False" or "Unknown", in quotes`, describe(v))
	}
	return s
}

func (r *groupReader) reason(at string, v any) string {
	s, _ := v.(string)
	if !reasonPattern.MatchString(s) {
		r.addFault(at, "is %s; give a reason such as KubeletNotReady, with * for any text, such as Kubelet*, of at most 128 letters, digits and -_.,:* (it is no regular expression)", describe(v))
	}
	return s
}

// describe returns a value as a message shows it.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "missing"
	case string:
		return lenient.Quote(v)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	default:
		return fmt.Sprint(v)
	}
}

// GoneDelay reads the annotation for how long a node must have been gone before that counts.
func GoneDelay(annotations map[string]string, key string) (time.Duration, error) {
	v, set := annotations[key]
	if !set {
		return 0, nil
	}
	d, err := Duration(v)
	if err != nil || v == "" {
		return 0, fmt.Errorf("annotation %s is %s; give a duration such as 5m, or 0s for no delay", key, lenient.Quote(v))
	}
	return d, nil
}

// soonMissing is how long agents may take to set their conditions on a new node.
const soonMissing = 5 * time.Minute

// GroupWarnings returns warnings about an annotation with groups of conditions. It returns none for an annotation
// that can't be read, which is a fault.
func GroupWarnings(annotations map[string]string, key, target string) []Remark {
	groups, _ := Groups(annotations, key) // none if they can't be read
	var remarks []Remark
	field := "metadata.annotations." + key
	for i := range groups {
		for j, test := range groups[i].Tests {
			at := fmt.Sprintf("annotation %s [%d].all[%d]", key, i, j)
			switch {
			case test.Missing && groups[i].For < soonMissing:
				remarks = append(remarks, Warning(field, "%s requires condition %s to be missing for %s, and a node that has just joined lacks what its agents set later, so a %s may be repaired while it starts; give 10m or more",
					at, test.Type, groups[i].For, target))
			case len(groups[i].Tests) == 1 && test.Type == nodeReady && test.Status == statusTrue:
				remarks = append(remarks, Warning(field, readyListed, at))
			}
		}
	}
	return remarks
}
