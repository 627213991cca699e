package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestClosest: a name is suggested if it contains three letters of it or more, or if one letter in three is wrong at most. The
// closest come first.
func TestClosest(t *testing.T) {
	names := []string{"infra-1", "worker-zone-b-7", "worker-b", "worker-a", "pool", "ab"}
	cases := map[string][]string{
		"worker-c": {"worker-a", "worker-b"},
		"worker-b": {"worker-b", "worker-a"},
		"wroker-a": {"worker-a"},
		"infra":    {"infra-1"},
		"zone-b":   {"worker-zone-b-7"},
		"nothing":  nil,
		"":         nil,
		"nfr":      {"infra-1"},
		"fr":       nil,

		// A word of two or five letters may have one wrong, and one of nine may have three.
		"ax":        {"ab"},
		"a":         {"ab"},
		"b":         {"ab"},
		"xab":       {"ab"},
		"abx":       {"ab"},
		"axb":       {"ab"},
		"xy":        nil,
		"poxxl":     nil,
		"infxxx-1":  nil,
		"inxxxa-1z": nil,
		"inxxra-1z": {"infra-1"},
	}
	for word, want := range cases {
		if diff := cmp.Diff(want, closest(word, names)); diff != "" {
			t.Errorf("close to %q (-want +got):\n%s", word, diff)
		}
	}
	alike := strings.Fields("node-e node-d node-c node-b")
	if diff := cmp.Diff([]string{"node-b", "node-c", "node-d"}, closest("node-a", alike)); diff != "" {
		t.Errorf("of more than three the first are suggested (-want +got):\n%s", diff)
	}
}
