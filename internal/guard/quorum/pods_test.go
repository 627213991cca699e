package quorum

import "testing"

// TestPodsOfANode: all pods must be ready, in any order.
func TestPodsOfANode(t *testing.T) {
	good := &pod{Conditions: []condition{{ready, "True"}}}
	bad, unknown := &pod{Conditions: []condition{{ready, "False"}}}, &pod{Conditions: []condition{{ready, "Unknown"}}}
	for want, lists := range map[podState][][]*pod{
		noPods:       {nil},
		podsReady:    {{good}, {good, good}},
		podsNotReady: {{bad}, {unknown}, {good, bad}, {bad, good}, {unknown, good, good}},
	} {
		for _, list := range lists {
			got := noPods
			for _, p := range list {
				got = got.with(p)
			}
			if got != want {
				t.Errorf("%d pods %v make %d, want %d", len(list), list, got, want)
			}
		}
	}
}

// TestHostsWithoutAName equal no other host.
func TestHostsWithoutAName(t *testing.T) {
	for _, pair := range [][2]string{{"", ""}, {"", "a"}, {"a", ""}, {"a", "b"}} {
		if sameHost(pair[0], pair[1]) {
			t.Errorf("%q and %q are taken for the same", pair[0], pair[1])
		}
	}
	if !sameHost("Master-0", "master-0") {
		t.Error("a name in other letters is taken for another")
	}
}
