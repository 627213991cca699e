package powercycle

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

// reasonSources are the files with the reasons of conditions. A constant of them that is one word in capitals and small letters is one,
// or a phase or another word that the page has to explain too.
var reasonSources = []string{
	"../../fencing/record.go", "../../power/failure.go", "../../baremetalhost/facts.go", "../../../api/fettle/v1alpha1/power_types.go",
	"../fencednode/machines.go", "claim.go", "clusters.go", "hosts.go", "messages.go",
}

var word = regexp.MustCompile(`^([A-Z]+[a-z]+)+$`)

// TestEachReasonIsDocumented: the tables of the page on PowerRemediation have each reason that a condition may have.
func TestEachReasonIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/remedies/power.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range reasonSources {
		for name, value := range textConstants(t, file) {
			if !word.MatchString(value) {
				continue
			}
			found++
			if !strings.Contains(string(page), "`"+value+"`") {
				t.Errorf("docs/remedies/power.md does not say what %s means (%s of %s)", value, name, file)
			}
		}
	}
	if found < 70 {
		t.Errorf("only %d constants were found", found)
	}
}

// textConstants returns the constants of a file whose values are texts.
func textConstants(t *testing.T, file string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || len(spec.Values) != len(spec.Names) {
			return true
		}
		for i, name := range spec.Names {
			if literal, is := spec.Values[i].(*ast.BasicLit); is && literal.Kind == token.STRING {
				constants[name.Name], err = strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		return true
	})
	return constants
}
