package cli

import (
	"fmt"
	"strings"
)

// These are the kinds that explain knows, in the words of users.
const (
	machineSubject      = "machine"
	nodeSubject         = "node"
	repairSubject       = "repair"
	nodeCheckSubject    = "nodehealthcheck"
	machineCheckSubject = "machinehealthcheck"
)

// subjectKinds are those kinds in the order in which they are offered.
var subjectKinds = [...]string{machineSubject, nodeSubject, repairSubject, nodeCheckSubject, machineCheckSubject}

// subject is the object that the user names.
type subject struct {
	kind, name string
	// group is the API group, or empty if the user gave none. It distinguishes health checks.
	group string
}

// isCheck reports whether it is a health check.
func (o subject) isCheck() bool { return o.kind == nodeCheckSubject || o.kind == machineCheckSubject }

// subjectOf parses the word for a kind: its name, plural or short name, with its group or without.
func subjectOf(word string) (subject, bool) {
	name, group, _ := strings.Cut(strings.ToLower(word), ".")
	if version, rest, both := strings.Cut(group, "."); both && isVersion(version) {
		group = rest
	}
	switch name {
	case "machine", "machines":
		return subject{kind: machineSubject, group: group}, true
	case "node", "nodes", "no":
		return subject{kind: nodeSubject, group: group}, true
	case "repair", "repairs", "rep":
		return subject{kind: repairSubject, group: group}, true
	case "nodehealthcheck", "nodehealthchecks", "nhc":
		return subject{kind: nodeCheckSubject, group: group}, true
	case "machinehealthcheck", "machinehealthchecks", "mhc", "mhcs":
		return subject{kind: machineCheckSubject, group: group}, true
	}
	return subject{}, false
}

// isVersion reports whether a part of a word is the version of an API, which kubectl takes before the group.
func isVersion(part string) bool {
	return len(part) > 1 && part[0] == 'v' && part[1] >= '0' && part[1] <= '9'
}

// readSubject parses machine/NAME, or machine NAME.
func readSubject(args []string) (subject, error) {
	word, name, joined := strings.Cut(args[0], "/")
	rest := args[1:]
	if !joined && len(rest) > 0 {
		name, rest = rest[0], rest[1:]
	}
	of, known := subjectOf(word)
	switch {
	case !known:
		return subject{}, fmt.Errorf("%q is none of the kinds that can be explained; give machine/NAME, node/NAME, repair/NAME, nodehealthcheck/NAME or machinehealthcheck/NAME", word)
	case name == "" || len(rest) > 0 || strings.Contains(name, "/"):
		return subject{}, fmt.Errorf("give one name, such as %s/NAME", of.kind)
	}
	of.name = name
	return of, nil
}
