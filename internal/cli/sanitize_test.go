package cli

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/fettle-io/fettle/internal/sanitize"
)

// poison is what a stranger may write into a name, a message or an error.
var poison = "x\x1b[2J\x1b]0;t\a\r\nNAMESPACE   fake-row   healthy\u009b1m\u202e\u2066\u200b\ufeff\u2028\xff https://me:SECRET@h/a " + strings.Repeat("long ", 1<<18)

// poisoned fills every text of an answer. Slices and maps get one element, pointers a value.
func poisoned(v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // the others have no text
	case reflect.String:
		v.SetString(poison)
	case reflect.Int:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		poisoned(v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				poisoned(field)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		poisoned(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		poisoned(value)
		v.SetMapIndex(reflect.ValueOf("key"), value)
	}
}

// TestI15AnswersAreFitToShow: any text of any answer may hold anything. Neither a terminal nor a program gets a
// control character, a false row, or more than a few lines of it.
func TestI15AnswersAreFitToShow(t *testing.T) {
	answers := map[string]struct {
		value  any
		people func(*page, any)
	}{
		"status": {&Status{}, func(p *page, v any) {
			s, _ := v.(*Status)
			sp := statusPage{page: *p, limit: 20, where: "in any namespace", command: "fettle", namespaces: true}
			sp.all(s)
		}},
		"explanation": {&Explanation{}, func(p *page, v any) {
			e, _ := v.(*Explanation)
			p.explanation(e)
		}},
		"repair": {&RepairExplanation{}, func(p *page, v any) {
			e, _ := v.(*RepairExplanation)
			p.repairExplanation(e)
		}},
		"bmc check": {&BMCCheck{}, func(p *page, v any) {
			c, _ := v.(*BMCCheck)
			p.bmcCheck(c)
		}},
		"check": {&CheckResult{}, func(p *page, v any) {
			r, _ := v.(*CheckResult)
			p.checkResult(r)
		}},
	}
	for name, answer := range answers {
		for _, format := range []string{"", formatJSON, formatYAML} {
			t.Run(name+" "+format, func(t *testing.T) {
				poisoned(reflect.ValueOf(answer.value).Elem())
				var out bytes.Buffer
				p := &page{Writer: &out, colours: true, at: noon}
				if err := (&output{format: format}).emit(&out, answer.value, func() { answer.people(p, answer.value) }); err != nil {
					t.Fatalf("printing it: %v", err)
				}
				wantShowable(t, out.String())
			})
		}
	}
}

// TestI15MapsAreFitToShow: of a map, values are made fit, and keys that are not fit are left out.
func TestI15MapsAreFitToShow(t *testing.T) {
	answer := struct{ Said map[string]string }{map[string]string{"a": "x\x1b[2Jy", "b\x1b[2J": "z", "c": "fine"}}
	sanitizeAnswer(&answer)
	if got, want := answer.Said, (map[string]string{"a": `x\x1b[2Jy`, "c": "fine"}); !reflect.DeepEqual(got, want) {
		t.Errorf("it shows %q, want %q", got, want)
	}
}

// TestI15TextsOfAnswersAreBounded: a text has its bound in bytes, and a name that is longer is not shown.
func TestI15TextsOfAnswersAreBounded(t *testing.T) {
	shown := func(most int, show func(string) string) {
		t.Helper()
		fits := strings.Repeat("a", most)
		if got, cut := show(fits), show(fits+"a"); got != fits || len(cut) > most || !strings.HasSuffix(cut, "…") {
			t.Errorf("of %d bytes %d are shown, and of one more %d", most, len(got), len(cut))
		}
	}
	shown(sanitize.MaxMessage, func(s string) string { sanitizeAnswer(&s); return s })
	shown(sanitize.MaxPart, func(s string) string { return failureText(errors.New(s)) })
	if name := strings.Repeat("a", mostCell); !isShowable(name) || isShowable(name+"a") {
		t.Errorf("a name of %d bytes, or one of a byte more, is not judged as it should be", mostCell)
	}
	numbers := map[int]string{1: "a\x07"}
	sanitizeAnswer(&numbers)
	if !reflect.DeepEqual(numbers, map[int]string{1: `a\x07`}) {
		t.Errorf("of a map by numbers it shows %q", numbers[1])
	}
}

func wantShowable(t *testing.T, text string) {
	t.Helper()
	for _, own := range []colour{plain, red, green, yellow, colour(reset), "\n"} {
		text = strings.ReplaceAll(text, string(own), "")
	}
	if at := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }); at >= 0 || !utf8.ValidString(text) {
		t.Errorf("it has what is not printable: %q", text[max(0, at-20):min(len(text), at+20)])
	}
	if strings.Contains(text, "SECRET") {
		t.Error("it has a password")
	}
	if strings.Contains(text, "\nNAMESPACE   fake-row") || len(text) > 1<<20 || len(text) < 1000 {
		t.Errorf("it has %d bytes", len(text))
	}
}

func TestErrorsAreFitToShow(t *testing.T) {
	for _, c := range Commands(Options{Name: "fettle"}) {
		args := map[string][]string{"status": nil, "explain": {"node/a"}, "check": {"a.yaml"}, "bmc": {"check", "a"}}[c.Name()]
		c.SetArgs(append(args, "-o", poison[:200]))
		c.SilenceErrors, c.SilenceUsage = true, true
		if err := c.Execute(); err == nil || strings.ContainsAny(err.Error(), "\x1b\r\n") {
			t.Errorf("%s says %q", c.Name(), err)
		}
	}
}

// TestI15ErrorsOfCommandsAreFitToShow: each command makes the text of its error fit, and callers still find out which error it is.
func TestI15ErrorsOfCommandsAreFitToShow(t *testing.T) {
	for _, c := range Commands(Options{Name: "fettle"}) {
		args, shown := map[string][]string{"status": nil, "explain": {"node/a"}, "bmc": {"check", "a"}}[c.Name()]
		if !shown { // the errors of check are part of its answer
			continue
		}
		c.SetArgs(append(args, "--kubeconfig", "/none/\x1b[2J\nworker-1 healthy "+strings.Repeat("a", 2*sanitize.MaxMessage)))
		c.SilenceErrors, c.SilenceUsage = true, true
		err := c.Execute()
		if err == nil || !strings.Contains(err.Error(), "/none/") {
			t.Fatalf("%s says %v, want the path", c.Name(), err)
		}
		if text := err.Error(); strings.ContainsAny(text, "\x1b\r\n") || len(text) > sanitize.MaxMessage {
			t.Errorf("%s says %q", c.Name(), text)
		}
	}
	inner := errors.New(poison)
	for _, want := range []error{nil, inner} {
		c := sanitizeErrors(&cobra.Command{RunE: func(*cobra.Command, []string) error { return want }})[0]
		err := c.RunE(c, nil)
		if !errors.Is(err, want) {
			t.Errorf("there is an error: %t, and the command returns one: %t", want != nil, err != nil)
		}
		if err != nil && (strings.ContainsAny(err.Error(), "\x1b\r\n") || strings.Contains(err.Error(), "SECRET") || len(err.Error()) > sanitize.MaxMessage) {
			t.Errorf("it says %q", err)
		}
	}
}

// TestNamesThatAreNotFitAreNotCompleted, since a shell prints them as they are.
func TestNamesThatAreNotFitAreNotCompleted(t *testing.T) {
	if got := withPrefix([]string{"a", "a\x1b[2J", "b"}, "a"); len(got) != 1 || got[0] != "a" {
		t.Errorf("it completes %q", got)
	}
}
