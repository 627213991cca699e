// Package annotate is the remedy that annotates a machine for an external remediator. The remediator removes the
// annotation when it is done, and no other controller does (docs/reference/openshift.md#deletion-and-annotation).
package annotate
