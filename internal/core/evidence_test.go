package core_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// proven is the evidence of a power cycle of a request that was commanded a number of minutes ago.
func proven(q core.Request, cycle, minutes int) core.Evidence {
	at := ago(time.Duration(minutes) * time.Minute)
	return core.Evidence{
		Request: q.ID, Cycle: cycle, Method: "PowerOff", Means: "bmc", Protocol: "Redfish", BootIDBefore: "before",
		Commanded: at, Proven: at.Add(10 * time.Second),
	}
}

// unproven is the same while there is no proof.
func unproven(q core.Request, cycle, minutes int) core.Evidence {
	e := proven(q, cycle, minutes)
	e.Method, e.Proven = "", time.Time{}
	return e
}

// backAgain is the same once the node is back.
func backAgain(e core.Evidence) core.Evidence {
	e.Released, e.Back, e.BootIDAfter = e.Proven.Add(time.Second), e.Proven.Add(time.Minute), "after"
	return e
}

// fencedWorld is a node that is being fenced for a repair, which began two minutes ago.
func fencedWorld(changes ...func(*core.Request)) ([]core.Policy, core.Cluster) {
	n := aNode("a", dead)
	p := check("p", []int{0}, classic)
	r := repair(n, p, started(ago(2*time.Minute)))
	r.Revision = 1
	cluster := clusterOf([]core.Target{n}, r)
	cluster.Requests = []core.Request{requestFor(p, n, rebooting, changes...)}
	return []core.Policy{p}, cluster
}

// overlaid returns the cluster as a pass has it.
func overlaid(cluster core.Cluster) core.Cluster {
	var e core.Expectations
	cluster.Repairs, cluster.Requests = slices.Clone(cluster.Repairs), slices.Clone(cluster.Requests)
	e.Overlay(&cluster, noon)
	return cluster
}

// TestEvidenceOfARepair: a running repair has the evidence of its own requests, also of past ones. A proof that
// its record lacks is noted at once, and other evidence is not.
func TestEvidenceOfARepair(t *testing.T) {
	_, bare := fencedWorld()
	q := bare.Requests[0]
	one, two := proven(q, 1, 1), proven(q, 2, 0)
	none := unproven(q, 2, 0)
	says := func(e core.Evidence) func(*core.Cluster) {
		return func(f *core.Cluster) { f.Requests[0].Evidence = e }
	}
	recorded := func(all ...core.Evidence) func(*core.Cluster) {
		return func(f *core.Cluster) { f.Repairs[0].Evidence = all }
	}
	gone := func(f *core.Cluster) { f.PastRequests, f.Requests = f.Requests, nil }
	request := func(change func(*core.Request)) func(*core.Cluster) {
		return func(f *core.Cluster) { change(&f.Requests[0]) }
	}
	later := one
	later.Proven = later.Proven.Add(time.Second)
	for name, c := range map[string]struct {
		changes []func(*core.Cluster)
		want    []core.Evidence
		noted   bool
	}{
		"no evidence":                    {nil, nil, false},
		"no proof yet":                   {[]func(*core.Cluster){says(none)}, []core.Evidence{none}, false},
		"a proof":                        {[]func(*core.Cluster){says(one)}, []core.Evidence{one}, true},
		"a proof that is recorded":       {[]func(*core.Cluster){says(one), recorded(one)}, []core.Evidence{one}, false},
		"a later proof of the cycle":     {[]func(*core.Cluster){says(later), recorded(one)}, []core.Evidence{later}, true},
		"the node is back":               {[]func(*core.Cluster){says(backAgain(one)), recorded(one)}, []core.Evidence{backAgain(one)}, false},
		"a void proof":                   {[]func(*core.Cluster){says(unproven(q, 1, 1)), recorded(one)}, []core.Evidence{unproven(q, 1, 1)}, false},
		"another power cycle":            {[]func(*core.Cluster){says(none), recorded(one)}, []core.Evidence{one, none}, false},
		"another power cycle with proof": {[]func(*core.Cluster){says(two), recorded(one)}, []core.Evidence{one, two}, true},
		"two cycles of one instant":      {[]func(*core.Cluster){says(unproven(q, 1, 0)), recorded(two)}, []core.Evidence{unproven(q, 1, 0), two}, false},
		"the request is gone":            {[]func(*core.Cluster){says(one), gone}, []core.Evidence{one}, true},
		"another request without proof": {[]func(*core.Cluster){says(one), gone, func(f *core.Cluster) {
			made := f.PastRequests[0]
			made.ID.UID, made.Evidence = "made later", none
			made.Evidence.Request.UID = made.ID.UID
			f.Requests = []core.Request{made}
		}}, []core.Evidence{one, func() core.Evidence { e := none; e.Request.UID = "made later"; return e }()}, true},
		"a request that Fettle did not make": {[]func(*core.Cluster){says(one), request(func(q *core.Request) { q.Own = false })}, nil, false},
		"a request about another target":     {[]func(*core.Cluster){says(one), request(func(q *core.Request) { q.Target.UID = "other" })}, nil, false},
		"a request of another policy":        {[]func(*core.Cluster){says(one), request(func(q *core.Request) { q.Policy.Name = "other" })}, nil, false},
		"a request of another step":          {[]func(*core.Cluster){says(one), request(func(q *core.Request) { q.Template = reprovisioning })}, nil, false},
		"a request that seems earlier":       {[]func(*core.Cluster){says(one), request(requestedAt(ago(2*time.Minute + 10*time.Second)))}, []core.Evidence{one}, true},
		"a request of an earlier repair":     {[]func(*core.Cluster){says(one), gone, func(f *core.Cluster) { f.PastRequests[0].Created = ago(2*time.Minute + 10*time.Second + 1) }}, nil, false},
		"a repair that has ended":            {[]func(*core.Cluster){says(one), gone, func(f *core.Cluster) { ended(noon)(&f.Repairs[0]) }}, nil, false},
	} {
		policies, cluster := fencedWorld()
		for _, change := range c.changes {
			change(&cluster)
		}
		seen := overlaid(cluster)
		if diff := cmp.Diff(c.want, seen.Repairs[0].Evidence); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		notes := core.Decide(policies, seen, noon).Notes
		if noted := len(notes) == 1 && notes[0].Reason(&seen.Repairs[0]) == core.NotedProof; noted != c.noted || len(notes) > 1 {
			t.Errorf("%s: the notes are %+v", name, notes)
		}
	}
}

// TestEvidenceIsNotedOnce: the record has the proof after the note, and nothing is noted again. The end has all of it.
func TestEvidenceIsNotedOnce(t *testing.T) {
	policies, cluster := fencedWorld()
	cluster.Requests[0].Evidence = proven(cluster.Requests[0], 1, 1)
	var e core.Expectations
	first := cluster
	first.Repairs = slices.Clone(cluster.Repairs)
	e.Overlay(&first, noon)
	written := first.Repairs[0].ToWrite()
	if written.EvidenceUnrecorded {
		t.Error("what is written says that it is not recorded")
	}
	written.Revision++
	e.ExpectRepair(written, noon)
	again := cluster
	again.Repairs = slices.Clone(cluster.Repairs)
	e.Overlay(&again, noon)
	if notes := core.Decide(policies, again, noon).Notes; len(notes) > 0 {
		t.Errorf("it is noted again: %+v", notes)
	}
	for range 2 { // the definition of the kind may lack the field
		again.Repairs = slices.Clone(cluster.Repairs)
		again.Repairs[0].Revision = written.Revision + 1
		e.Overlay(&again, noon.Add(time.Hour))
		if notes := core.Decide(policies, again, noon.Add(time.Hour)).Notes; len(notes) > 0 || len(again.Repairs[0].Evidence) != 1 {
			t.Errorf("a record that does not show it is written for ever: %+v", notes)
		}
	}
	if len(cluster.Repairs[0].Evidence) > 0 {
		t.Error("the snapshot of the ledger has changed")
	}
}

// TestEvidenceOfManyCycles: beyond the bound the earliest are dropped. They stay out, so that nothing is written for ever.
func TestEvidenceOfManyCycles(t *testing.T) {
	_, cluster := fencedWorld()
	q := cluster.Requests[0]
	cluster.Requests = nil
	var want []core.Evidence
	for i := range core.MaxEvidence + 5 {
		made := q
		made.ID.UID = fmt.Sprint(i)
		made.Evidence = proven(made, 1, 60-i)
		cluster.PastRequests = append(cluster.PastRequests, made)
		want = append(want, made.Evidence)
	}
	for range 3 {
		seen := overlaid(cluster)
		if diff := cmp.Diff(want[5:], seen.Repairs[0].Evidence); diff != "" {
			t.Fatalf("evidence (-want +got):\n%s", diff)
		}
		cluster.Repairs[0] = seen.Repairs[0].ToWrite()
	}
	if overlaid(cluster).Repairs[0].EvidenceUnrecorded {
		t.Error("it is recorded, and noted again")
	}
	for i := range cluster.PastRequests { // the order does not tell which is the earliest
		cluster.PastRequests[i].Evidence.Commanded = noon
	}
	cluster.Repairs[0].Evidence = nil
	cluster.Repairs[0] = overlaid(cluster).Repairs[0].ToWrite()
	if overlaid(cluster).Repairs[0].EvidenceUnrecorded {
		t.Error("evidence of one instant is noted for ever")
	}
}

// TestI14EvidenceDecidesNothing: whatever the status of a remediation object says, the decision is the same but for the note.
func TestI14EvidenceDecidesNothing(t *testing.T) {
	for name, change := range map[string]func(*core.Target, *core.Request, *core.Repair){
		"under way":        func(*core.Target, *core.Request, *core.Repair) {},
		"leaving":          func(_ *core.Target, q *core.Request, _ *core.Repair) { leaving(q) },
		"failed":           func(_ *core.Target, q *core.Request, _ *core.Repair) { q.Succeeded = core.No },
		"succeeded":        func(_ *core.Target, q *core.Request, _ *core.Repair) { q.Succeeded = core.Yes },
		"healthy again":    func(n *core.Target, _ *core.Request, _ *core.Repair) { ready("True", ago(time.Hour))(n) },
		"recovered before": func(n *core.Target, _ *core.Request, r *core.Repair) { r.Recovered = ago(time.Minute) },
		"given up":         func(_ *core.Target, _ *core.Request, r *core.Repair) { gaveUp(ago(time.Minute))(r) },
	} {
		policies, cluster := fencedWorld()
		change(&cluster.Targets[0], &cluster.Requests[0], &cluster.Repairs[0])
		want := core.Decide(policies, overlaid(cluster), noon)
		cluster.Requests[0].Evidence = backAgain(proven(cluster.Requests[0], 1, 1))
		past := cluster.Requests[0]
		past.ID.UID, past.Evidence.Request.UID = "past", "past"
		cluster.PastRequests = []core.Request{past}
		got := core.Decide(policies, overlaid(cluster), noon)
		got.Notes = slices.DeleteFunc(got.Notes, func(n core.Note) bool {
			return n.Recovered.Equal(cluster.Repairs[0].Recovered) && n.Answer == cluster.Repairs[0].Answer
		})
		if len(got.Notes) == 0 {
			got.Notes = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-without +with evidence):\n%s", name, diff)
		}
	}
}

// TestEvidenceOfAnEnd: the end of a repair is written with all evidence, so nothing is noted beside it.
func TestEvidenceOfAnEnd(t *testing.T) {
	policies, cluster := fencedWorld()
	ready("True", ago(time.Hour))(&cluster.Targets[0])
	cluster.Repairs[0].StepSeen = 1
	cluster.Requests[0].Evidence = backAgain(proven(cluster.Requests[0], 1, 1))
	cluster.PastRequests, cluster.Requests = cluster.Requests, nil
	seen := overlaid(cluster)
	d := core.Decide(policies, seen, noon)
	if len(d.Finishes) != 1 || len(d.Notes) > 0 {
		t.Errorf("the repair ends %d times, with %d notes", len(d.Finishes), len(d.Notes))
	}
	if diff := cmp.Diff([]core.Evidence{cluster.PastRequests[0].Evidence}, seen.Repairs[0].ToWrite().Evidence); diff != "" {
		t.Errorf("evidence at the end (-want +got):\n%s", diff)
	}
}

// TestProofOfEvidence: a proof is recorded at once.
func TestProofOfEvidence(t *testing.T) {
	_, cluster := fencedWorld()
	e := backAgain(proven(cluster.Requests[0], 2, 1))
	want := core.Evidence{Request: e.Request, Cycle: 2, Method: "PowerOff", Proven: e.Proven}
	if got := e.Proof(); got != want {
		t.Errorf("the proof is %+v, want %+v", got, want)
	}
	e.Method = ""
	if got := e.Proof(); got != (core.Evidence{}) {
		t.Errorf("without a method the proof is %+v", got)
	}
}
