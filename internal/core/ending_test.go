package core

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// endReasons returns all constants of the type EndReason, by their name.
func endReasons(t *testing.T) map[string]EndReason {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "ending.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]EndReason{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || len(spec.Values) != 1 || len(spec.Names) != 1 {
			return true
		}
		if kind, named := spec.Type.(*ast.Ident); !named || kind.Name != "EndReason" {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		all[spec.Names[0].Name] = EndReason(value)
		return true
	})
	if len(all) < 20 {
		t.Fatalf("ending.go has %d reasons", len(all))
	}
	return all
}

// TestEndReasons: each reason has the name of its constant, and a text of its own.
func TestEndReasons(t *testing.T) {
	texts := map[string]string{}
	for name, reason := range endReasons(t) {
		text := ending{reason: reason, limit: time.Minute, steps: 2}.text()
		if string(reason) != name || !regexp.MustCompile(`^([A-Z][a-z]+)+$`).MatchString(name) {
			t.Errorf("reason %s has the value %q", name, reason)
		}
		if text == name || text == "" {
			t.Errorf("reason %s has no text", name)
		}
		if other := texts[text]; other != "" {
			t.Errorf("reasons %s and %s have one text: %s", name, other, text)
		}
		texts[text] = name
	}
}

// TestI12SettledByReason: two reasons of a withdrawal mean that the target is healthy, whatever
// their texts.
func TestI12SettledByReason(t *testing.T) {
	for name, reason := range endReasons(t) {
		if want := name == "TargetHealthy" || name == "TargetRecovered"; reason.healthy() != want {
			t.Errorf("%s means that the target is healthy: %t", name, reason.healthy())
		}
	}
}

// TestEndingOfAnUnknownReason: a reason without a text is its own.
func TestEndingOfAnUnknownReason(t *testing.T) {
	if got := because("Unheard").text(); got != "Unheard" {
		t.Errorf("the text is %q", got)
	}
}

// TestEndingAfterFailedSteps: the text tells one step from several.
func TestEndingAfterFailedSteps(t *testing.T) {
	for steps, want := range map[int]string{1: "the only step", 2: "all 2 steps"} {
		if got := (ending{reason: RecoveredAfterFailure, steps: steps}).text(); !strings.HasPrefix(got, want+" ") {
			t.Errorf("after %d steps it is %q", steps, got)
		}
	}
}
