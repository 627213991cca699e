package runs

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// at is a line of the log, of second s. The pod is "web-0" of a StatefulSet if owner is set.
func at(s int, node, boot, uid, name, owner string) string {
	return fmt.Sprintf(`{"time":"2026-05-04T03:02:%02d.5Z","node":%q,"boot":%q,"namespace":"shop","name":%q,"uid":%q,"owner":%q}`+"\n",
		s, node, boot, name, uid, owner)
}

func web(s int, node, boot, uid string) string { return at(s, node, boot, uid, "web-0", "web") }

func TestOverlaps(t *testing.T) {
	cases := map[string]struct {
		log      []string
		overlaps int
	}{
		"an empty log":                           {nil, 0},
		"one run":                                {[]string{web(1, "a", "1", "x"), web(2, "a", "1", "x")}, 0},
		"one after the other":                    {[]string{web(1, "a", "1", "x"), web(2, "b", "1", "y")}, 0},
		"two at the same instant":                {[]string{web(1, "a", "1", "x"), web(1, "b", "1", "y")}, 1},
		"the second begins during the first":     {[]string{web(1, "a", "1", "x"), web(2, "b", "1", "y"), web(3, "a", "1", "x")}, 1},
		"they only touch":                        {[]string{web(1, "a", "1", "x"), web(2, "a", "1", "x"), web(2, "b", "1", "y")}, 1},
		"two boots of one host":                  {[]string{web(1, "a", "1", "x"), web(2, "a", "2", "x"), web(3, "a", "1", "x")}, 1},
		"there and back again":                   {[]string{web(1, "a", "1", "x"), web(2, "b", "1", "y"), web(3, "a", "1", "z")}, 0},
		"two pods in one boot of one host":       {[]string{web(1, "a", "1", "x"), web(1, "a", "1", "y")}, 0},
		"two names":                              {[]string{web(1, "a", "1", "x"), at(1, "b", "1", "y", "web-1", "web")}, 0},
		"pods without a StatefulSet":             {[]string{at(1, "a", "1", "x", "p", ""), at(1, "b", "1", "y", "p", "")}, 0},
		"three at the same instant":              {[]string{web(1, "a", "1", "x"), web(1, "b", "1", "y"), web(1, "c", "1", "z")}, 3},
		"a line that is being written":           {[]string{web(1, "a", "1", "x"), `{"time":"2026-05-04T03:0`}, 0},
		"a whole line that has no end of a line": {[]string{web(1, "a", "1", "x"), strings.TrimSpace(web(1, "b", "1", "y"))}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			all, err := Read(strings.NewReader(strings.Join(tc.log, "")))
			if err != nil {
				t.Fatal(err)
			}
			if got := Overlaps(all); len(got) != tc.overlaps {
				t.Errorf("%d overlaps, want %d: %v", len(got), tc.overlaps, got)
			}
		})
	}
}

func TestRunsAreInOrderAndWhole(t *testing.T) {
	log := web(1, "a", "1", "x") + web(2, "b", "2", "y") + web(3, "b", "2", "y") + at(4, "a", "1", "x", "p", "")
	all, err := Read(strings.NewReader(log))
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	const want = "pod y on node b in boot 2 from 2026-05-04T03:02:02.5Z to 2026-05-04T03:02:03.5Z"
	if got := all[1].String(); got != want || all[1].Identity != "shop/web-0" {
		t.Errorf("%s: %s\nwant %s", all[1].Identity, got, want)
	}
}

func TestABrokenLogIsNoProof(t *testing.T) {
	broken := errors.New("the disk is broken")
	for name, log := range map[string]io.Reader{
		"a line that is no JSON": strings.NewReader("nonsense\n" + web(1, "a", "1", "x")),
		"a disk that fails":      iotest.ErrReader(broken),
	} {
		if all, err := Read(log); err == nil {
			t.Errorf("%s: %v", name, all)
		}
	}
}
