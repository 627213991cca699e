// Package statedir owns the directory of a sandbox's state: it creates it, makes sure that only one sandbox uses it at
// a time, and names the files in it. It does not know what the files contain.
//
//	dir, err := statedir.Open("/tmp/demo")
//	if _, ok := errors.AsType[*statedir.InUseError](err); ok { ... } // another sandbox runs on it
//	defer dir.Close()
//	dir.Path("pki", "ca.crt")
package statedir
