// Package statedir owns the directory that a sandbox keeps its state in: it creates it, makes sure that only one
// sandbox uses it at a time, and names the files in it. It must not know what the files contain.
//
//	dir, err := statedir.Open("/tmp/demo")
//	if _, ok := errors.AsType[*statedir.InUseError](err); ok { ... } // another sandbox runs on it
//	defer dir.Close()
//	dir.Path("pki", "ca.crt")
package statedir
