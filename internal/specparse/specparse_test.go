package specparse

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
)

// reading is how something was read: as what, or why not.
type reading struct {
	got any
	err error
}

func read[T any](got T, err error) reading { return reading{got, err} }

func TestFieldsAreReadOrReported(t *testing.T) {
	key := "fettle.io/setting"
	set := func(v string) map[string]string { return map[string]string{key: v} }
	one := core.Count(1)
	cases := map[string]struct {
		reading reading
		want    any
		says    []string
	}{
		"a duration":               {read(Duration("1h30m")), 90 * time.Minute, nil},
		"no duration":              {read(Duration("")), time.Duration(0), nil},
		"a negative duration":      {read(Duration("-5m")), time.Duration(0), []string{`is "-5m"; give a duration such as 300s`}},
		"a duration without unit":  {read(Duration("300")), time.Duration(0), []string{`is "300"; give a duration`}},
		"a number":                 {read(Amount("2")), core.Count(2), nil},
		"a share":                  {read(Amount("40%")), core.Percent(40), nil},
		"a share of all":           {read(Amount("100%")), core.Percent(100), nil},
		"a number above 100":       {read(Amount("101")), core.Count(101), nil},
		"more than all":            {read(Amount("101%")), core.Amount{}, []string{`is "101%"`, "a percentage such as 40%, at most 100%"}},
		"a word for a number":      {read(Amount("many")), core.Amount{}, []string{`is "many"; give a number such as 2`}},
		"a negative number":        {read(Amount("-1")), core.Amount{}, []string{`is "-1"`}},
		"a number beyond fleets":   {read(Amount("9999999999")), core.Amount{}, []string{`is "9999999999"`}},
		"nothing in flight said":   {read(InFlight(nil, key, one)), one, nil},
		"some in flight":           {read(InFlight(set("25%"), key, one)), core.Percent(25), nil},
		"any number in flight":     {read(InFlight(set("unlimited"), key, one)), core.Unlimited(), nil},
		"a word in flight":         {read(InFlight(set("lots"), key, one)), core.Amount{}, []string{"annotation " + key + ` is "lots"`, ", or unlimited"}},
		"no pause said":            {read(PositiveDuration(nil, key, time.Second)), time.Second, nil},
		"a pause":                  {read(PositiveDuration(set("1m"), key, time.Second)), time.Minute, nil},
		"a pause of nothing":       {read(PositiveDuration(set("0s"), key, time.Second)), time.Duration(0), []string{"annotation " + key + ` is "0s"`, "above zero"}},
		"no dry run said":          {read(DryRun(nil, key)), false, nil},
		"a dry run":                {read(DryRun(set("true"), key)), true, nil},
		"a dry run declined":       {read(DryRun(set("false"), key)), false, nil},
		"perhaps a dry run":        {read(DryRun(set("yes"), key)), true, []string{"annotation " + key + ` is "yes"; give "true" or "false"`}},
		"a long word is cut short": {read(Amount(strings.Repeat("9", 1<<20))), core.Amount{}, []string{"(1048576 bytes)"}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			if tc.reading.got != tc.want {
				t.Errorf("it is read as %v, want %v", tc.reading.got, tc.want)
			}
			if (tc.reading.err != nil) != (len(tc.says) > 0) {
				t.Fatalf("the error is %v", tc.reading.err)
			}
			for _, words := range tc.says {
				if !strings.Contains(tc.reading.err.Error(), words) {
					t.Errorf("the error does not say %q: %v", words, tc.reading.err)
				}
			}
		})
	}
}

func TestSelectorThatIsNoneSelectsNothing(t *testing.T) {
	worker := labels.Set{"role": "worker"}
	got, err := Selector(&metav1.LabelSelector{MatchLabels: worker})
	if err != nil || !got.Matches(worker) || got.Matches(labels.Set{}) {
		t.Errorf("a selector is read as %v: %v", got, err)
	}
	got, err = Selector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "role", Operator: "Near"}}})
	if err == nil || got.Matches(worker) || !strings.Contains(err.Error(), "Near") || !strings.Contains(err.Error(), "give one such as {matchLabels: {role: worker}}") {
		t.Errorf("nonsense is read as %v: %v", got, err)
	}
	_, err = Selector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "role", Operator: metav1.LabelSelectorOperator(strings.Repeat("x", 2*maxSelectorFault))}}})
	_, fault, _ := strings.Cut(err.Error(), "is not a label selector (")
	if fault, _, _ = strings.Cut(fault, "); give"); len(fault) != maxSelectorFault || !strings.HasSuffix(fault, "x…") {
		t.Errorf("%d bytes of an error are quoted, want %d: %s", len(fault), maxSelectorFault, fault)
	}
	if got, err = Selector(&metav1.LabelSelector{}); err != nil || !got.Matches(worker) {
		t.Errorf("a selector without requirements is read as %v: %v", got, err)
	}
}

func TestSameSelector(t *testing.T) {
	app := labels.SelectorFromSet(labels.Set{"app": "a"})
	all := []labels.Selector{labels.Nothing(), labels.Everything(), app, labels.SelectorFromSet(labels.Set{"app": "b"})}
	for i, a := range all {
		for j, b := range all {
			if got := SameSelector(a, b); got != (i == j) {
				t.Errorf("selectors %d and %d are the same: %t", i, j, got)
			}
		}
	}
	if !SameSelector(app, labels.SelectorFromSet(labels.Set{"app": "a"})) {
		t.Error("a selector that is read again is another")
	}
}

func TestSentence(t *testing.T) {
	problems := ErrorLines(nil, errors.New("one"), nil, errors.Join(errors.New("two"), errors.New("three")))
	problems = append(problems, WrongType(lenient.Problem{Field: "spec.limit", Value: "[1]"}, "thing"))
	want := `one; two; three; spec.limit is [1], which is of the wrong type; "kubectl explain thing.spec.limit" says what to give`
	if got := JoinProblems(problems); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := JoinProblems(ErrorLines(nil, nil)); got != "" {
		t.Errorf("where nothing is wrong it says %q", got)
	}
	if got := JoinProblems([]string{strings.Repeat("x", MaxProblems)}); len(got) != MaxProblems || !strings.HasSuffix(got, "x") {
		t.Errorf("a sentence at the bound has %d bytes", len(got))
	}
	if got := JoinProblems([]string{strings.Repeat("x", MaxProblems+1)}); len(got) != MaxProblems || !strings.HasSuffix(got, "x…") {
		t.Errorf("a sentence above the bound has %d bytes", len(got))
	}
	if got := JoinProblems([]string{strings.Repeat("ü", MaxProblems)}); len(got) > MaxProblems+len("…") || !strings.HasSuffix(got, "ü…") {
		t.Errorf("a long sentence has %d bytes", len(got))
	}
}

// TestGiveUp: the values that people may write about giving up, and the messages about others.
func TestGiveUp(t *testing.T) {
	at := time.Date(2026, time.January, 31, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		after, resumed *string
		want           int
		since          time.Time
		problems       []string
	}{
		"nothing":            {nil, nil, 7, time.Time{}, nil},
		"a number":           {new("1"), nil, 1, time.Time{}, nil},
		"the highest number": {new("1000"), nil, 1000, time.Time{}, nil},
		"never":              {new("never"), nil, 0, time.Time{}, nil},
		"a time":             {nil, new("2026-01-31T13:00:00+01:00"), 7, at, nil},
		"none":               {new("0"), nil, 7, time.Time{}, []string{"annotation after is \"0\"; give a number from 1 to 1000, or never"}},
		"too many":           {new("1001"), nil, 7, time.Time{}, []string{"from 1 to 1000"}},
		"no number":          {new(""), nil, 7, time.Time{}, []string{"from 1 to 1000"}},
		"no time":            {nil, new("now"), 7, time.Time{}, []string{"annotation resumed is \"now\"; give the present time, such as 2026-01-31T12:00:00Z (date -u +%FT%TZ prints it)"}},
		"neither":            {new("-1"), new(""), 7, time.Time{}, []string{"annotation after", "annotation resumed"}},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{}
			for key, v := range map[string]*string{"after": c.after, "resumed": c.resumed} {
				if v != nil {
					annotations[key] = *v
				}
			}
			after, resumed, err := GiveUp(annotations, "after", "resumed", 7)
			if after != c.want || !resumed.Equal(c.since) || (err != nil) != (len(c.problems) > 0) {
				t.Errorf("after %d, resumed at %s, error %v; want %d and %s", after, resumed, err, c.want, c.since)
			}
			for _, p := range c.problems {
				if err == nil || !strings.Contains(err.Error(), p) {
					t.Errorf("the error is %v, want %q", err, p)
				}
			}
		})
	}
}
