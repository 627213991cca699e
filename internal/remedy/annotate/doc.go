// Package annotate is the remedy that marks a machine with an annotation, and leaves it to whoever
// looks for that: the remediator takes the mark away when it is done, and nobody else does
// (docs/reference/openshift.md#deletion-and-annotation).
package annotate
