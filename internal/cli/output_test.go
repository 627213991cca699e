package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/google/go-cmp/cmp"
)

// TestFormatsAreCompleted: a shell offers the formats in this order, and no files.
func TestFormatsAreCompleted(t *testing.T) {
	var o output
	root, c := &cobra.Command{Use: "fettle"}, &cobra.Command{Use: "status", RunE: func(*cobra.Command, []string) error { return nil }}
	o.addFlag(c.Flags())
	o.complete(c)
	root.AddCommand(c)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&bytes.Buffer{})
	root.SetArgs([]string{cobra.ShellCompNoDescRequestCmd, "status", "-o", ""})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("json\nyaml\n:4\n", out.String()); diff != "" {
		t.Errorf("it offers (-want +got):\n%s", diff)
	}
}

// unprintable has no form as a document.
type unprintable struct{}

func (unprintable) MarshalJSON() ([]byte, error) { return nil, errors.New("out of paper") }

// TestAnswersThatCannotBePrinted end in an error.
func TestAnswersThatCannotBePrinted(t *testing.T) {
	for _, format := range []string{formatJSON, formatYAML} {
		var out bytes.Buffer
		err := (&output{format: format}).emit(&out, &unprintable{}, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "printing the answer: ") || !strings.Contains(err.Error(), "out of paper") || out.Len() > 0 {
			t.Errorf("as %s it prints %q: %v", format, out.String(), err)
		}
	}
}
