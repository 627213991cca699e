package cli

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"
)

func leaseOf(holder string, renewed time.Time) *coordinationv1.Lease {
	seconds, at := int32(15), metav1.NewMicroTime(renewed)
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at}}
}

// TestColoursKeepColumns: without their colours, tables are the same to the letter.
func TestColoursKeepColumns(t *testing.T) {
	s := newScene()
	scenes["too-many"](s)
	status := buildStatus([]*assessment{s.assessment()}, "", header())
	show := func(p *page) {
		sp := statusPage{page: *p, limit: 20, where: "here", command: "fettle"}
		sp.all(&status)
	}
	bare, coloured := printed(false, show), printed(true, show)
	if !strings.Contains(coloured, string(red)+"unhealthy") || strings.Contains(bare, "\x1b") {
		t.Fatalf("colours are not where they should be:\n%s", coloured)
	}
	if diff := cmp.Diff(bare, regexp.MustCompile("\x1b\\[[0-9]+m|\x1b\\[0m").ReplaceAllString(coloured, "")); diff != "" {
		t.Errorf("colours moved something (-without +with):\n%s", diff)
	}
}

func TestColoursOnlyOnATerminal(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if onTerminal(&bytes.Buffer{}) || onTerminal(file) {
		t.Error("what is no terminal gets colours")
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("this machine gives no terminal: %v", err)
	}
	defer terminal.Close()
	for _, tc := range []struct {
		noColor, term string
		want          bool
	}{{"", "xterm", true}, {"", "", true}, {"1", "xterm", false}, {"", "dumb", false}} {
		t.Setenv("NO_COLOR", tc.noColor)
		t.Setenv("TERM", tc.term)
		if got := onTerminal(terminal); got != tc.want {
			t.Errorf("with NO_COLOR=%s and TERM=%s, a terminal gets colours: %t", tc.noColor, tc.term, got)
		}
	}
}

// tinted returns what a function prints on a terminal, with the colours as words.
func tinted(show func(*page)) string {
	return strings.NewReplacer(string(red), "<red:", string(green), "<green:", string(yellow), "<yellow:", reset, ">").
		Replace(plainPattern.ReplaceAllString(printed(true, show), "$1"))
}

var plainPattern = regexp.MustCompile(regexp.QuoteMeta(string(plain)) + "(.*?)" + regexp.QuoteMeta(reset))

// TestTables: a column that is empty in each row is left out, and a long cell is cut.
func TestTables(t *testing.T) {
	long := strings.Repeat("a", mostCell)
	rows := [][]cell{{text("<b>"), text(""), {"c", red}}, {text(""), text(""), {long, green}}, {text("d"), text(""), text(long + "a")}}
	got := tinted(func(p *page) { p.table([]string{"A", "B", "C"}, rows) })
	want := "A     C\n<b>   <red:c>\n      <green:" + long + ">\nd     " + long[:mostCell-len("…")] + "…\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
	if got := tinted(func(p *page) { p.printf("%s%s", p.in(red, ""), p.in(red, "a")) }); got != "<red:a>" {
		t.Errorf("nothing and a word in red are %q", got)
	}
}

func TestInstants(t *testing.T) {
	p := &page{at: noon.Add(time.Second + 300*time.Millisecond)}
	cases := map[string]struct {
		at   time.Time
		want string
	}{
		"now":                 {noon.Add(time.Second), "now"},
		"in a while":          {noon.Add(131 * time.Second), "12:02:11Z (in 2m10s)"},
		"in a moment":         {noon.Add(2 * time.Second), "12:00:02Z (in 1s)"},
		"a moment ago":        {noon, "12:00:00Z (1s ago)"},
		"a while ago":         {noon.Add(-time.Hour), "11:00:00Z (60m ago)"},
		"on another day":      {noon.Add(-48 * time.Hour), "2026-07-30 12:00:00Z (2d ago)"},
		"at an unknown time":  {time.Time{}, ""},
		"in another timezone": {noon.Add(61 * time.Second).In(time.FixedZone("X", 3600)), "12:01:01Z (in 60s)"},
	}
	for sentence, tc := range cases {
		if got := p.when(instant(tc.at)); got != tc.want {
			t.Errorf("%s: %q, want %q", sentence, got, tc.want)
		}
	}
}

func TestFormats(t *testing.T) {
	for _, format := range []string{"", "json", "yaml"} {
		if err := (&output{format: format}).validate(); err != nil {
			t.Errorf("%q is refused: %v", format, err)
		}
	}
	if err := (&output{format: "wide"}).validate(); err == nil || !strings.Contains(err.Error(), "json or yaml") {
		t.Errorf("wide gives %v", err)
	}
}

// TestOwnerAnswers: without a request, the rules of an owner are still told.
func TestOwnerAnswers(t *testing.T) {
	owner := Reference{Kind: "MachineSet", Name: "workers"}
	for want, a := range map[string]*OwnerAnswer{
		"": {Owner: owner, Waits: []OwnerWait{{Message: "It waits."}}},
		"\nIts owner\n  It does so.\n  It does this.\n":                                                         {Owner: owner, Rules: []string{"It does so", "It does this"}},
		"\nIts owner\n  MachineSet workers got the request to replace it now, and <yellow:has not answered>.\n": {Owner: owner, Requested: true, Since: instant(noon)},
		"\nIts owner\n  MachineSet workers says <yellow:Later> since now: so\n  <yellow:Can't tell all of that>: why.\n" +
			"\nIts owner waits, since\n  It waits.\n    over at now\n    sooner: Do.\n  It waits too.\n": {
			Owner: owner, Requested: true, Since: instant(noon), Reason: "Later", Message: "so", Unknown: "why",
			Waits: []OwnerWait{{Message: "It waits.", Until: instant(noon), Advice: "Do."}, {Message: "It waits too."}},
		},
	} {
		if diff := cmp.Diff(want, tinted(func(p *page) { p.ownerAnswer(a) })); diff != "" {
			t.Errorf("of %+v it prints (-want +got):\n%s", a, diff)
		}
	}
	if got := tinted(func(p *page) { p.ownerAnswer(nil) }); got != "" {
		t.Errorf("of none it prints %q", got)
	}
}
