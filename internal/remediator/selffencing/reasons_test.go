package selffencing

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestEachReasonIsDocumented: the tables of the page on self-fencing have each reason that only this remediator has.
func TestEachReasonIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/remedies/self-fencing.md")
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile(`^([A-Z]+[a-z]+)+$`)
	found := 0
	for _, file := range []string{"../../fencing/promise.go", "messages.go", "../../../api/fettle/v1alpha1/selffence_reasons.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is || len(spec.Values) != 1 {
				return true
			}
			literal, is := spec.Values[0].(*ast.BasicLit)
			if !is || literal.Kind != token.STRING {
				return true
			}
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			if word.MatchString(value) {
				found++
				if !strings.Contains(string(page), "`"+value+"`") {
					t.Errorf("the page does not say what %s means", value)
				}
			}
			return true
		})
	}
	if found < 15 {
		t.Errorf("only %d constants were found", found)
	}
}
