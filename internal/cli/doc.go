// Package cli has the commands for users: status, explain, check and repair. They use the API with the user's
// kubeconfig and rights. Repair writes one annotation, and the others write nothing. Verdicts and gates come from
// core.Decide, so the rules are those of the controller. The controller may have seen other facts for a moment.
//
// The steps are apart: reading (cluster.go, follow.go), deciding (assessment.go), answers (shape.go and its builders,
// pure) and printing (the files ending in _text.go, pure). Another API of health checks is one more Dialect.
package cli
