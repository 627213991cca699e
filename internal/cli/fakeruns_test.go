package cli

import (
	"strings"
	"testing"
)

// run is a command that is run in a fleet of its own.
type run struct {
	sentence, args string
	change         func(*fleet)
}

// goldenRuns compares the transcripts of commands with a file.
func goldenRuns(t *testing.T, file string, runs []run) {
	t.Helper()
	text := ""
	for _, r := range runs {
		f := startFleet(t)
		r.change(f)
		text += "# " + r.sentence + "\n" + strings.TrimRight(f.transcript(strings.Fields(r.args)...), "\n") + "\n\n"
	}
	golden(t, file, text)
}

// refusing has reads fail with a code.
func refusing(code int, paths ...string) func(*fleet) {
	return func(f *fleet) {
		for _, path := range paths {
			f.refuse("GET "+path, code)
		}
	}
}

// unserved has the API server not serve collections.
func unserved(paths ...string) func(*fleet) {
	return func(f *fleet) {
		for _, path := range paths {
			delete(f.objects, path)
		}
	}
}
