package lease

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/internal/core"
)

// noon is the time of these tests.
var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

// held returns the record of a lease of an hour that was acquired and renewed a while ago.
func held(holder string, acquired, renewed time.Duration) record {
	return record{holder: holder, acquired: noon.Add(-acquired), renewed: noon.Add(-renewed), duration: time.Hour, transitions: 4}
}

func TestWhoHasTheLease(t *testing.T) {
	cases := map[string]struct {
		reason string
		lease  record
		want   bool
	}{
		"no holder":                      {"", record{}, false},
		"acquired just now":              {"", held("them", 0, 0), true},
		"in its last second":             {"", held("them", 2*time.Hour, time.Hour-time.Second), true},
		"at its end":                     {"act at the deadline", held("them", 2*time.Hour, time.Hour), false},
		"never renewed":                  {"its age is unknown", record{holder: "them", acquired: noon, duration: time.Hour}, false},
		"given back":                     {"its holder is empty, as elections leave it", record{renewed: noon, duration: time.Hour}, false},
		"without a duration":             {"", record{holder: "them", renewed: noon}, false},
		"by a clock that is a bit ahead": {"clocks of nodes differ, and it was taken all the same", held("them", 0, -5*time.Second), true},
		"in the future":                  {"clocks differ by a year too", held("them", 0, -365*24*time.Hour), true},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			if got := tc.lease.validAt(noon); got != tc.want {
				t.Errorf("valid: %t, want %t. %s", got, tc.want, tc.reason)
			}
		})
	}
}

func TestTaking(t *testing.T) {
	fresh := func(transitions int64) record {
		return record{holder: "us", acquired: noon, renewed: noon, duration: 660 * time.Second, transitions: transitions}
	}
	renewed := fresh(4)
	renewed.acquired = noon.Add(-30 * time.Minute)
	cases := map[string]struct {
		reason string
		old    *record
		want   record
		may    bool
	}{
		"there is none":            {"", nil, fresh(0), true},
		"another holder has it":    {"and keeps it", new(held("them", 0, time.Minute)), held("them", 0, time.Minute), false},
		"another holder's is over": {"", new(held("them", 3*time.Hour, 2*time.Hour)), fresh(5), true},
		"another gave it back":     {"", new(held("", 0, 0)), fresh(5), true},
		"a holder in the future":   {"who has it all the same", new(held("them", 0, -time.Hour)), held("them", 0, -time.Hour), false},
		"it is ours":               {"it was acquired before, and is renewed", new(held("us", 30*time.Minute, 10*time.Minute)), renewed, true},
		"it was ours":              {"others could have had it since", new(held("us", 3*time.Hour, 2*time.Hour)), fresh(4), true},
		"ours since unknown":       {"", new(record{holder: "us", renewed: noon, duration: time.Hour, transitions: 4}), fresh(4), true},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got, may := acquiredRecord(tc.old, "us", noon, 11*time.Minute)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(record{})); diff != "" || may != tc.may {
				t.Errorf("taken: %t. %s\nrecord (-want +got):\n%s", may, tc.reason, diff)
			}
		})
	}
}

func TestLeasesLastWholeSeconds(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{
		-time.Second: time.Second, 0: time.Second, time.Millisecond: time.Second, time.Second: time.Second,
		61 * time.Second: 61 * time.Second, 61*time.Second + 1: 62 * time.Second,
	} {
		if got := wholeSeconds(given); got != want {
			t.Errorf("%s lasts %s, want %s", given, got, want)
		}
	}
}

// TestWrittenIsRead: read returns the written record, and other fields stay.
func TestWrittenIsRead(t *testing.T) {
	r := held("us", time.Hour, 1500*time.Millisecond)
	l := render(core.Node{Name: "Node-A", UID: "n"}, &r)
	if l.GetName() != "node-node-a" || l.GetNamespace() != "medik8s-leases" {
		t.Errorf("it is %s/%s", l.GetNamespace(), l.GetName())
	}
	l.Object["spec"].(map[string]any)["strategy"] = "theirs"
	r.transitions++
	write(l, &r)
	if diff := cmp.Diff(r, read(l), cmp.AllowUnexported(record{})); diff != "" {
		t.Errorf("record (-written +read):\n%s", diff)
	}
	if l.Object["spec"].(map[string]any)["strategy"] != "theirs" {
		t.Error("what others wrote is lost")
	}
	r.holder = strings.Repeat("a", maxHolderLength+2)
	write(l, &r)
	if got := read(l).holder; len(got) != maxHolderLength {
		t.Errorf("of a long holder it reads %d bytes", len(got))
	}
	if got := read(object("n")); got != (record{}) {
		t.Errorf("of nothing was read %+v", got)
	}
}

func TestLeaseBelongsToItsNode(t *testing.T) {
	another := metav1.OwnerReference{APIVersion: "example.org/v1", Kind: "Node", Name: "n", UID: "other"}
	service := metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: "n", UID: "other"}
	mine := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "n-uid"}
	namesake := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "old-uid"}
	cases := map[string]struct {
		reason    string
		uid       string
		has, want []metav1.OwnerReference
	}{
		"without an owner":    {"", "n-uid", nil, []metav1.OwnerReference{mine}},
		"of its node":         {"", "n-uid", []metav1.OwnerReference{mine}, []metav1.OwnerReference{mine}},
		"of a namesake":       {"it would go with what is gone already", "n-uid", []metav1.OwnerReference{namesake}, []metav1.OwnerReference{mine}},
		"of others too":       {"theirs is not ours to take away", "n-uid", []metav1.OwnerReference{another, service}, []metav1.OwnerReference{mine, another, service}},
		"of a node not known": {"", "", []metav1.OwnerReference{namesake}, []metav1.OwnerReference{namesake}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			l := object("n")
			if tc.has != nil {
				l.SetOwnerReferences(tc.has)
			}
			setOwner(l, core.Node{Name: "n", UID: tc.uid})
			if diff := cmp.Diff(tc.want, l.GetOwnerReferences()); diff != "" {
				t.Errorf("owners (-want +got):\n%s%s", diff, tc.reason)
			}
		})
	}
}

func TestNodeThatIsGoneOwnsNothing(t *testing.T) {
	gone := core.Target{Node: core.Node{State: core.NodeGone, Name: "n", UID: "n-uid"}}
	if n := nodeOf(gone); n.UID != "" || n.Name != "n" {
		t.Errorf("its lease would belong to %+v, and be deleted at once", n)
	}
}
