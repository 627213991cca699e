package main

import (
	"slices"
	"testing"
)

// house is a core of three files, and the table of its rooms.
func house(table, low string) tree {
	return tree{
		"hack/rooms.txt":             "# a comment\n\n" + table,
		"internal/core/low.go":       "package core\n\n" + low,
		"internal/core/high.go":      "package core\n\ntype planner struct{ now int }\n\nfunc (p *planner) wake() { low() }\n",
		"internal/core/low_test.go":  "package core\n\nvar _ planner\n",
		"internal/core/sub/other.go": "package sub\n\nvar _ unknown\n",
	}
}

// TestRooms: a file uses what its room and those below declare, and the exceptions go once nothing needs them.
func TestRooms(t *testing.T) {
	const table = "nouns: low\nplanning: high\n"
	const plain, upward = "func low() {}\n", "func low() { p := planner{}; p.wake(); p.now++; p.wake() }\n"
	const above = " of room planning, which is above"
	for sentence, tc := range map[string]struct {
		files tree
		want  []string
	}{
		"downward":            {house(table, plain), nil},
		"upward":              {house(table, upward), []string{"internal/core/low.go:3: low now" + above, "internal/core/low.go:3: low planner" + above, "internal/core/low.go:3: low wake" + above}},
		"upward, and allowed": {house(table+"low now\nlow planner\nlow wake\n", upward), nil},
		"allowed in vain":     {house(table+"low now\n", plain), []string{"low now is no use of a room above; remove the line"}},
		"one room":            {house("all: low high\n", upward), nil},
		"a file has no room":  {house("all: low high\n", plain).with("internal/core/new.go", "package core\n"), []string{"new.go has no room"}},
		"a file is gone":      {house("all: low high old\n", plain), []string{"old.go does not exist"}},
	} {
		table, err := readRooms(tc.files)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := table.check(tc.files); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, %v", sentence, got, err)
		}
	}
}

// with returns the files with one more.
func (files tree) with(name, text string) tree {
	files[name] = text
	return files
}

// TestRoomsThatCanNotBeRead are errors, and no empty house.
func TestRoomsThatCanNotBeRead(t *testing.T) {
	if _, err := readRooms(house("a: low\nb: low high\n", "")); err == nil {
		t.Error("a file has two rooms")
	}
	for _, low := range []string{"func low( {}\n", "func low() { unknown() }\n"} {
		files := house("all: low high\n", low)
		table, err := readRooms(files)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := table.check(files); err == nil {
			t.Errorf("%q is read", low)
		}
	}
}

// TestFirstUse: a use is told by its first line.
func TestFirstUse(t *testing.T) {
	files := house("nouns: low\nplanning: high\n", "func low() {\n\tvar p planner\n\tp.now++\n\tp.now--\n}\n")
	table, err := readRooms(files)
	if err != nil {
		t.Fatal(err)
	}
	got, err := table.check(files)
	if want := "internal/core/low.go:5: low now of room planning, which is above"; err != nil || !slices.Contains(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}
