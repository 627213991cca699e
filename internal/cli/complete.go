package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// completeWithin bounds how long a shell waits for names.
const completeWithin = 3 * time.Second

// completeSubjects completes machine/NAME, and machine NAME.
func (s *session) completeSubjects(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	prefix, part, joined := strings.Cut(word, "/")
	switch {
	case len(args) == 0 && !joined:
		var kinds []string
		for _, kind := range subjectKinds {
			if strings.HasPrefix(kind, word) {
				kinds = append(kinds, kind+"/")
			}
		}
		return kinds, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	case len(args) == 0:
		names := s.completeNames(cmd, prefix, part)
		for i := range names {
			names[i] = prefix + "/" + names[i]
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	case len(args) == 1 && !strings.Contains(args[0], "/"):
		return s.completeNames(cmd, args[0], word), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeNames completes names from the cluster. If the cluster doesn't answer, there are none.
func (s *session) completeNames(cmd *cobra.Command, word, part string) []string {
	of, known := subjectOf(word)
	if !known || s.open(cmd) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	here, _ := s.names(ctx, of)
	return withPrefix(here, part)
}

// withPrefix keeps the names with a prefix. It drops names that are unsafe to show, since the terminal gets them as
// they are.
func withPrefix(names []string, prefix string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) || !isShowable(name) })
}

// complete completes the flags that name things.
func (c *connection) complete(cmd *cobra.Command) {
	// Registering fails only for flags that are not there.
	_ = cmd.RegisterFlagCompletionFunc("context", func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		raw, _ := c.config().RawConfig() // nothing to complete from
		return withPrefix(slices.Sorted(maps.Keys(raw.Contexts)), word), cobra.ShellCompDirectiveNoFileComp
	})
	_ = cmd.RegisterFlagCompletionFunc("namespace", func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		cluster, err := c.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		found, _ := named(ctx, cluster, schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, "") // nothing to complete from
		var names []string
		for _, n := range found {
			names = append(names, n.Name)
		}
		return withPrefix(names, word), cobra.ShellCompDirectiveNoFileComp
	})
}
