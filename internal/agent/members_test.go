package agent

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	type names = []string
	for what, c := range map[string]struct {
		current, fit, gone, want names
	}{
		"the first":                         {nil, names{"a", "b", "c", "d"}, nil, names{"a", "b", "c"}},
		"too few":                           {nil, names{"a", "b"}, nil, nil},
		"as before":                         {names{"a", "b", "c"}, names{"a", "b", "c", "d"}, nil, names{"a", "b", "c"}},
		"one is gone":                       {names{"a", "b", "c"}, names{"a", "c", "d", "e"}, names{"b"}, names{"a", "d", "c"}},
		"one is missed once":                {names{"a", "b", "c"}, names{"a", "c", "d", "e"}, nil, names{"a", "b", "c"}},
		"one is gone and can't be replaced": {names{"a", "b", "c"}, names{"a", "c"}, names{"b"}, names{"a", "b", "c"}},
		"most are gone":                     {names{"a", "b", "c"}, names{"a", "d", "e"}, names{"b", "c"}, names{"a", "d", "e"}},
		"most are gone for good":            {names{"a", "b", "c"}, names{"a"}, names{"b", "c"}, nil},
		"one is better":                     {names{"b", "c", "d"}, names{"a", "b", "c", "d"}, nil, names{"b", "c", "a"}},
		"all are better":                    {names{"x", "y", "z"}, names{"a", "b", "c", "x", "y", "z"}, nil, names{"a", "y", "z"}},
		"five are demanded now":             {names{"a", "b", "c", "d", "e"}, names{"a", "b", "c"}, nil, names{"a", "b", "c"}},
	} {
		gone := map[string]bool{}
		for _, name := range c.gone {
			gone[name] = true
		}
		if got := choose(c.current, c.fit, gone, 3); !slices.Equal(got, c.want) {
			t.Errorf("%s: the witnesses are %q, want %q", what, got, c.want)
		}
	}
}

// TestChooseOf: five witnesses are preferred. A promise that names five keeps them until most are gone.
func TestChooseOf(t *testing.T) {
	t.Parallel()
	type names = []string
	five := names{"a", "b", "c", "d", "e"}
	for what, c := range map[string]struct {
		current, fit, gone, want names
	}{
		"five":                   {nil, names{"a", "b", "c", "d", "e", "f"}, nil, five},
		"four are fit":           {nil, five[:4], nil, five[:3]},
		"three are fit":          {nil, five[:3], nil, five[:3]},
		"two are fit":            {nil, five[:2], nil, nil},
		"a fourth and a fifth":   {five[:3], five, nil, five},
		"one of five is gone":    {five, five[:4], names{"e"}, five},
		"two of five are gone":   {five, five[:3], names{"d", "e"}, five},
		"three of five are gone": {five, names{"a", "b", "x"}, names{"c", "d", "e"}, names{"a", "b", "x"}},
		"one of five is another": {five, names{"a", "b", "c", "d", "x"}, names{"e"}, names{"a", "b", "c", "d", "x"}},
	} {
		gone := map[string]bool{}
		for _, name := range c.gone {
			gone[name] = true
		}
		if got := chooseOf([]int{5, 3}, c.current, c.fit, nil, gone); !slices.Equal(got, c.want) {
			t.Errorf("%s: the witnesses are %q, want %q", what, got, c.want)
		}
	}
	if got := chooseOf([]int{5}, nil, five[:4], nil, nil); got != nil {
		t.Errorf("the witnesses are %q where five are demanded", got)
	}
}

// TestOutlast: a majority of the witnesses is not of the control plane where there are enough others. Nodes of the control plane have upper-case names.
func TestOutlast(t *testing.T) {
	t.Parallel()
	type names = []string
	places := map[string]Place{}
	for _, node := range "ABCDEF" {
		places[string(node)] = Place{Control: true}
	}
	for what, c := range map[string]struct {
		demanded           []int
		current, fit, want names
		gone               string
	}{
		"five":                      {[]int{5, 3}, nil, names{"A", "B", "C", "u", "v", "w", "x"}, names{"A", "B", "u", "v", "w"}, ""},
		"three":                     {[]int{3}, nil, names{"A", "B", "C", "u", "v", "w", "x"}, names{"A", "u", "v"}, ""},
		"too few others for five":   {[]int{5, 3}, nil, names{"A", "B", "C", "u", "v"}, names{"A", "u", "v"}, ""},
		"five are demanded":         {[]int{5}, nil, names{"A", "B", "C", "u", "v"}, names{"A", "B", "u", "v", "C"}, ""},
		"too few others for three":  {[]int{5, 3}, nil, names{"A", "B", "C", "D", "u"}, names{"A", "B", "u", "C", "D"}, ""},
		"no others":                 {[]int{3}, nil, names{"A", "B", "C", "D"}, names{"A", "B", "C"}, ""},
		"no control plane":          {[]int{3}, nil, names{"u", "v", "w"}, names{"u", "v", "w"}, ""},
		"one is too many":           {[]int{5, 3}, names{"A", "B", "C", "u", "v"}, names{"A", "B", "C", "u", "v", "w"}, names{"A", "B", "w", "u", "v"}, ""},
		"all are too many":          {[]int{5, 3}, names{"A", "B", "C", "D", "E"}, names{"A", "B", "C", "D", "E", "u", "v", "w"}, names{"A", "B", "u", "D", "E"}, ""},
		"one of three is too many":  {[]int{3}, names{"A", "B", "u"}, names{"A", "B", "u", "v"}, names{"A", "v", "u"}, ""},
		"one is missed once":        {[]int{5, 3}, names{"A", "B", "u", "v", "w"}, names{"A", "B", "C", "u", "v"}, names{"A", "B", "u", "v", "w"}, ""},
		"one is gone":               {[]int{5, 3}, names{"A", "B", "u", "v", "w"}, names{"A", "B", "C", "u", "v", "x"}, names{"A", "B", "u", "v", "x"}, "w"},
		"one of the plane is gone":  {[]int{5, 3}, names{"A", "B", "u", "v", "w"}, names{"A", "C", "u", "v", "w"}, names{"A", "C", "u", "v", "w"}, "B"},
		"one is gone for good":      {[]int{5, 3}, names{"A", "B", "u", "v", "w"}, names{"A", "B", "C", "u", "v"}, names{"A", "u", "v"}, "w"},
		"enough others begin again": {[]int{5, 3}, names{"A", "u", "v"}, names{"A", "B", "u", "v", "w"}, names{"A", "B", "u", "v", "w"}, ""},
	} {
		if got := chooseOf(c.demanded, c.current, c.fit, places, map[string]bool{c.gone: true}); !slices.Equal(got, c.want) {
			t.Errorf("%s: the witnesses are %q, want %q", what, got, c.want)
		}
	}
}

// TestEnough: how many witnesses are demanded follows from the nodes that promise something, and not from their answers.
func TestEnough(t *testing.T) {
	t.Parallel()
	places := map[string]Place{"c1": {Control: true}, "c2": {Control: true}, "c3": {Control: true}}
	for _, c := range []struct {
		nodes    []string
		demanded int
		want     bool
	}{
		{[]string{"a", "b", "c", "d"}, 5, false},
		{[]string{"a", "b", "c", "d", "e"}, 5, true},
		{[]string{"a", "b", "c", "c1", "c2"}, 5, true},
		{[]string{"a", "b", "c1", "c2", "c3"}, 5, false},
		{[]string{"a", "b", "c", "c1", "c2", "c3"}, 5, true},
		{[]string{"a", "c1", "c2"}, 3, false},
		{[]string{"a", "b", "c1"}, 3, true},
	} {
		if got := enough(c.nodes, places, c.demanded); got != c.want {
			t.Errorf("enough(%q, %d) = %t, want %t", c.nodes, c.demanded, got, c.want)
		}
	}
}

// TestRanked: the control plane comes first, zones take turns, and the order does not depend on that of the names.
func TestRanked(t *testing.T) {
	t.Parallel()
	places, nodes := map[string]Place{}, []string{}
	for i := range 12 {
		name := fmt.Sprintf("n%d", i)
		nodes, places[name] = append(nodes, name), Place{Zone: fmt.Sprintf("z%d", min(i%4, 2)), Control: i < 6}
	}
	got := ranked(nodes, places)
	for _, part := range [][]string{got[:3], got[6:9]} {
		zones := map[string]bool{}
		for _, name := range part {
			zones[places[name].Zone] = true
		}
		if len(zones) != 3 {
			t.Errorf("of three zones, the first three %q are in %d", part, len(zones))
		}
	}
	for i, name := range got {
		if places[name].Control != (i < 6) {
			t.Errorf("node %s is number %d", name, i)
		}
	}
	slices.Reverse(nodes)
	if again := ranked(nodes, places); !slices.Equal(again, got) {
		t.Errorf("the order is %q, and was %q", again, got)
	}
}

// TestServing: a node whose agent promises nothing now, or reads no Leases, is no witness.
func TestServing(t *testing.T) {
	t.Parallel()
	of := func(s selffence.State, read uint64) promiselease.Record {
		return promiselease.Record{Lease: selffence.Lease{State: s}, Witnessed: read}
	}
	all := map[string]promiselease.Record{"a": of(selffence.Promised, 7), "b": of(selffence.Promised, 0), "c": of(selffence.Withdrawn, 7), "d": of(selffence.Condemned, 7), "e": {}}
	if got := serving(all); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%q serve", got)
	}
	if got := promising(all); len(got) != 2 {
		t.Errorf("%q promise", got)
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	m := membersOf([]string{"c", "a", "b"})
	if m != (selffence.Members{"a", "b", "c"}) || !slices.Equal(namesOf(m), []string{"a", "b", "c"}) {
		t.Errorf("the members are %q", m)
	}
}
