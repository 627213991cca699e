package runs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"
)

// Run is a time in which one pod of a StatefulSet ran on a node, in one boot of its host.
type Run struct {
	Identity    string // NAMESPACE/NAME
	UID         string
	Node, Boot  string
	First, Last time.Time // when the log has it first and last
}

// key tells runs apart. A pod doesn't run again under the same UID, unless its host has booted.
type key struct{ identity, uid, node, boot string }

// Check reports each identity that ran on two hosts, or in two boots, at the same time. It returns all runs, so that the
// caller can tell that there were any.
func Check(t testing.TB, file string) []Run {
	t.Helper()
	log, err := os.Open(file)
	if err != nil {
		t.Fatalf("opening the log of running pods: %v", err)
	}
	defer func() { _ = log.Close() }()
	all, err := Read(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range Overlaps(all) {
		t.Error(problem)
	}
	return all
}

// Read returns the runs of all pods of StatefulSets, in the order in which they began. It leaves out a last line that is
// still being written.
func Read(log io.Reader) ([]Run, error) {
	var all []Run
	places := map[key]int{}
	lines := bufio.NewReader(log)
	for {
		raw, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the log of running pods: %w", err)
		}
		var l struct {
			Time                                    time.Time
			Node, Boot, Namespace, Name, UID, Owner string
		}
		if err := json.Unmarshal(raw, &l); err != nil {
			return nil, fmt.Errorf("parsing the log of running pods: %w", err)
		}
		if l.Owner == "" {
			continue
		}
		k := key{l.Namespace + "/" + l.Name, l.UID, l.Node, l.Boot}
		place, known := places[k]
		if !known {
			place = len(all)
			places[k] = place
			all = append(all, Run{Identity: k.identity, UID: k.uid, Node: k.node, Boot: k.boot, First: l.Time})
		}
		all[place].Last = l.Time
	}
}

// Overlaps returns a text for each two runs of an identity at the same time, on two hosts or in two boots of one.
func Overlaps(all []Run) []string {
	var problems []string
	for i, a := range all {
		for _, b := range all[i+1:] {
			elsewhere := a.Node != b.Node || a.Boot != b.Boot
			if a.Identity == b.Identity && elsewhere && !a.Last.Before(b.First) && !b.Last.Before(a.First) {
				problems = append(problems, fmt.Sprintf("%s ran twice at a time: %v and %v", a.Identity, a, b))
			}
		}
	}
	return problems
}

// String says where and when the pod ran.
func (r Run) String() string {
	return fmt.Sprintf("pod %s on node %s in boot %s from %s to %s",
		r.UID, r.Node, r.Boot, r.First.Format(time.RFC3339Nano), r.Last.Format(time.RFC3339Nano))
}
