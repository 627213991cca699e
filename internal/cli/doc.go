// Package cli is what a person asks Fettle: status, explain, check, repair. It acts on the API as that person. Repair writes one
// annotation; the others read and never write. What it says of verdicts and gates is what core.Decide says of the same facts,
// so it can't disagree with the controller about the rules; only what the controller has seen may
// differ for a moment.
//
// Reading (cluster.go, follow.go), asking (world.go), answering (shape.go and its builders, pure) and
// printing (the files ending in _text.go, pure) are apart. A further API of health checks is one more
// Dialect.
package cli
