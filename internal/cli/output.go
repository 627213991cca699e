package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// These are the formats of -o. Without one, the answer is a table.
const (
	formatJSON = "json"
	formatYAML = "yaml"
)

// output is the flag -o.
type output struct{ format string }

func (o *output) addFlag(f *pflag.FlagSet) {
	f.StringVarP(&o.format, "output", "o", "", "json or yaml, for programs (the shape is "+APIVersion+"); a table for people when not given")
}

func (o *output) complete(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{formatJSON, formatYAML}, cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that isn't there
}

func (o *output) validate() error {
	if slices.Contains([]string{"", formatJSON, formatYAML}, o.format) {
		return nil
	}
	return fmt.Errorf("--output is %q; give json or yaml, or leave it out for a table", o.format)
}

// emit prints an answer: as a document in a format, or by the function as a table. The answer is a pointer, and is made
// safe to show before.
func (o *output) emit(out io.Writer, answer any, people func()) error {
	sanitizeAnswer(answer)
	switch o.format {
	case formatJSON:
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(answer); err != nil {
			return fmt.Errorf("printing the answer: %w", err)
		}
	case formatYAML:
		body, err := yaml.Marshal(answer)
		if err != nil {
			return fmt.Errorf("printing the answer: %w", err)
		}
		fmt.Fprintf(out, "---\n%s", body)
	default:
		people()
	}
	return nil
}
