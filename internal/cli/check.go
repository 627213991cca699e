package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fettle-io/fettle/internal/sanitize"
)

// These are the exit statuses of fettle check, apart from 0.
const (
	exitProblems   = 1
	exitNotChecked = 2
)

// exitError ends the program with a status. Its text may be empty, when everything was printed.
type exitError struct {
	error

	status int
}

func (e exitError) Unwrap() error { return e.error }

// ExitStatus returns the exit status for the error of a command.
func ExitStatus(err error) int {
	var e exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.status
	}
	return 1
}

// checkOptions are the flags of fettle check.
type checkOptions struct {
	offline, strict bool
}

func checkCommand(o Options) *cobra.Command {
	s := newSession(o)
	var flags checkOptions
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Report the mistakes of a health check before you apply it, what it would select, and what it would do now",
		Long: "Say what is wrong with the health checks in files (- is standard input), and what in them may not be meant; whether the API server\n" +
			"would admit them (by a dry run, if you may); what they would select in the cluster, and what they would do now.\n\n" +
			"It judges FencePolicies, BMCs, PowerRemediations and their templates too, and shows nothing of a Secret.\n\n" +
			"It reads with your own kubeconfig and permissions, decides by the same rules as the controller, and changes nothing.\n" +
			"With --offline it judges the files alone.\n\n" +
			"The exit status is 0 when all is well, 1 when there are problems (or warnings, with --strict), and 2 when something could\n" +
			"not be checked: a file that can't be read, or a cluster that doesn't answer.",
		Example: fmt.Sprintf("  %[1]s check healthcheck.yaml\n  %[1]s check --offline --strict deploy/*.yaml\n  kubectl kustomize . | %[1]s check - -o json", o.Name),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exitError{errors.New("give the files to check, or - for standard input"), exitNotChecked}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return s.check(cmd, args, flags) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exitError{err, exitNotChecked} })
	s.addFlags(cmd)
	cmd.Flags().BoolVar(&flags.offline, "offline", false, "judge the files alone, without a cluster")
	cmd.Flags().BoolVar(&flags.strict, "strict", false, "let warnings fail the check too")
	return cmd
}

// check judges the files, then reads the cluster, then prints the result.
func (s *session) check(cmd *cobra.Command, files []string, flags checkOptions) error {
	s.out, s.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
	if err := s.validate(); err != nil {
		return exitError{err, exitNotChecked}
	}
	drafts, unchecked := s.readAll(cmd.InOrStdin(), files)
	for i := range drafts {
		s.review(&drafts[i])
	}
	compareBMCs(drafts)
	var grants []Grant
	if !flags.offline && slices.ContainsFunc(drafts, func(d draft) bool { return d.isValid() || d.isValidPower() }) {
		var failed error
		grants, failed = s.judge(cmd, drafts)
		unchecked = errors.Join(unchecked, failed)
	}
	result := conclude(drafts, unchecked, flags.strict)
	result.Grants = grants
	err := s.emit(s.out, &result, func() {
		p := &page{Writer: s.out, colours: onTerminal(s.out), at: s.Now()}
		p.checkResult(&result)
	})
	switch {
	case err != nil:
		return err
	case result.Outcome == problems:
		return exitError{errors.New(""), exitProblems}
	case result.Outcome == notChecked:
		return exitError{errors.New(""), exitNotChecked}
	}
	return nil
}

func (s *session) readAll(stdin io.Reader, files []string) ([]draft, error) {
	var drafts []draft
	var errs []error
	for _, file := range files {
		text, err := readFile(file, stdin)
		errs = append(errs, err)
		if err == nil {
			drafts = append(drafts, readDrafts(file, text)...)
		}
	}
	return drafts, errors.Join(errs...)
}

// review reviews a document by itself.
func (s *session) review(d *draft) {
	if d.object == nil {
		return
	}
	if d.Kind == "" || d.object.GetAPIVersion() == "" {
		d.Problems = append(d.Problems, Finding{Line: d.Line, Message: "it has no apiVersion or no kind, so it is not known what it is"})
		return
	}
	for _, dialect := range s.Dialects {
		remarks, known := dialect.Review(d.object)
		if !known {
			continue
		}
		d.dialect = dialect
		for _, r := range remarks {
			d.note(r)
		}
		return
	}
	if s.reviewPower(d) || s.reviewSelfFence(d) {
		return
	}
	d.Skipped = fmt.Sprintf("it is a %s of %s, which is not a health check that this version of Fettle follows", d.Kind, d.object.GetAPIVersion())
}

// note stores a remark, with its line and a suggestion for a misspelled name.
func (d *draft) note(r Remark) {
	f := Finding{Line: d.locate(r.Field, r.JSONType), Field: r.Field, Message: r.Text}
	if len(r.Known) > 0 {
		word := r.Field[strings.LastIndexByte(r.Field, '.')+1:]
		if names := closest(word, r.Known); len(names) > 0 {
			f.Message += "; did you mean " + names[0] + "?"
		} else {
			f.Message += "; there are " + strings.Join(r.Known, ", ")
		}
	}
	if r.Fault {
		d.Problems = append(d.Problems, f)
		return
	}
	d.Warnings = append(d.Warnings, f)
}

// isValid reports whether a document is a health check without problems, so that the cluster can judge it.
func (d *draft) isValid() bool { return d.dialect != nil && len(d.Problems) == 0 }

// judge judges all valid documents together, as if all were applied. It returns the rights that the controller lacks
// for the health checks.
func (s *session) judge(cmd *cobra.Command, drafts []draft) ([]Grant, error) {
	if err := s.open(cmd); err != nil {
		return nil, offlineHint(err)
	}
	s.judgePower(cmd.Context(), drafts)
	s.judgeFencePolicies(cmd.Context(), drafts)
	if !slices.ContainsFunc(drafts, func(d draft) bool { return d.isValid() }) {
		return nil, nil
	}
	return s.judgeChecks(cmd.Context(), drafts)
}

// judgeChecks judges all valid health checks together.
func (s *session) judgeChecks(ctx context.Context, drafts []draft) ([]Grant, error) {
	where := scope{s.setNamespaces(drafts), s.connection.controller, s.connection.bmcs}
	v, err := read(ctx, s.cluster, s.Dialects, where)
	if err != nil {
		return nil, offlineHint(err)
	}
	v.at = s.Now()
	var judged []*draft
	for i := range drafts {
		if d := &drafts[i]; d.isValid() {
			s.admit(ctx, d)
			v.put(d, s.existing(ctx, d))
			judged = append(judged, d)
		}
	}
	v.readExternal(ctx, s.cluster)
	v.putPower(drafts)
	v.concerns = aboutDrafts(drafts)
	v.readWorkloads(ctx, s.cluster, s.UserAgent)
	assessments := s.assess(ctx, v)
	v.effects(assessments, judged)
	grants, unknown := s.missingGrants(ctx, assessments, judged)
	warnOfMissingGrants(assessments, judged, grants)
	s.warnOfMissingPower(ctx, assessments, judged)
	warnOfNodesWithoutBMC(assessments, judged, v.external.bmcs, drafts)
	warnOfNodesWithoutPromise(assessments, judged, v.external.promises)
	for _, d := range judged {
		if d.Effect != nil {
			d.Effect.Unknown = append(d.Effect.Unknown, unknown...)
		}
	}
	return grants, nil
}

// setNamespaces sets for drafts of namespaced kinds the namespace that they would be applied to. It returns their
// common namespace, or an empty one.
func (s *session) setNamespaces(drafts []draft) string {
	namespaces := map[string]bool{}
	for i := range drafts {
		d := &drafts[i]
		if !d.isValid() {
			continue
		}
		switch {
		case !d.dialect.Read().Sources()[0].Namespaced:
			d.Namespace = ""
			d.object.SetNamespace("")
			continue
		case d.Namespace == "":
			d.Namespace = s.namespace
			d.object.SetNamespace(s.namespace)
		}
		namespaces[d.Namespace] = true
	}
	if len(namespaces) == 1 {
		return slices.Collect(maps.Keys(namespaces))[0]
	}
	return ""
}

func offlineHint(err error) error {
	return fmt.Errorf("%w (--offline judges the files alone)", err)
}

// effects describes the effect of each draft, with all others applied.
func (v *view) effects(assessments []*assessment, drafts []*draft) {
	for _, d := range drafts {
		w, i, found := policyOf(assessments, d)
		switch err := v.failureOf(d.dialect); {
		case err != nil:
			d.Unchecked = append(d.Unchecked, "what it would do, since "+failureText(err))
			continue
		case !found:
			d.Warnings = append(d.Warnings, Finding{Line: d.Line, Message: "what it would do is not known, since this cluster does not serve " + d.Kind})
			continue
		}
		e := w.effect(i)
		e.Exists = w.policies[i].ID.UID != ""
		for _, f := range w.clusterWarnings(i, e) {
			f.Field = d.fieldOf(f.Field)
			f.Line = d.locate(f.Field, "")
			d.Warnings = append(d.Warnings, f)
		}
		d.Effect = &e
	}
}

// failureOf returns why a dialect was not read as a whole. It is nil if it was, and if the cluster does not serve its kinds.
func (v *view) failureOf(of Dialect) error {
	for _, p := range v.incomplete {
		if p.Dialect == of {
			return p.err
		}
	}
	return nil
}

// conclude returns the result of a check.
func conclude(drafts []draft, unchecked error, strict bool) CheckResult {
	r := CheckResult{Header: Header{APIVersion: APIVersion, Kind: kindCheckResult}, Outcome: passed, Documents: []Document{}}
	found, warned, faults, noun := 0, 0, 0, "health check"
	for i := range drafts {
		d := &drafts[i].Document
		r.Documents = append(r.Documents, *d)
		if d.Skipped == "" {
			found++
		}
		if drafts[i].isPower {
			noun = "object"
		}
		warned += len(d.Warnings)
		faults += len(d.Problems)
		if d.Admission == refused {
			faults++
		}
	}
	slices.SortStableFunc(r.Documents, func(a, b Document) int { return cmp.Compare(a.File, b.File) })
	switch {
	case faults > 0:
		r.Outcome, r.Message = problems, fmt.Sprintf("%s found in %s.", count(faults, "problem"), count(found, noun))
	case unchecked != nil:
		r.Outcome, r.Message = notChecked, "A part of the input could not be checked."
	case found == 0:
		r.Outcome, r.Message = problems, "There is no health check in the input."
	case strict && warned > 0:
		r.Outcome, r.Message = problems, fmt.Sprintf("%s, and --strict lets them fail the check.", count(warned, "warning"))
	case warned > 0:
		r.Message = fmt.Sprintf("No problems in %s, and %s.", count(found, noun), count(warned, "warning"))
	default:
		r.Message = fmt.Sprintf("No problems in %s.", count(found, noun))
	}
	if unchecked != nil {
		r.Notes = strings.Split(sanitize.Report(unchecked), "\n")
	}
	return r
}
