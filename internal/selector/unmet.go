package selector

import "k8s.io/apimachinery/pkg/labels"

// Unmet returns the requirements of a selector that the labels don't meet. It returns false for a
// selector that selects nothing.
func Unmet(selector labels.Selector, of labels.Labels) ([]string, bool) {
	requirements, selectable := selector.Requirements()
	if !selectable {
		return nil, false
	}
	unmet := []string{}
	for i := range requirements {
		if !requirements[i].Matches(of) {
			unmet = append(unmet, requirements[i].String())
		}
	}
	return unmet, true
}
