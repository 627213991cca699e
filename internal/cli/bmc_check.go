package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/power"
)

func bmcCommand(o Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bmc",
		Short: "Check the baseboard management controllers of hosts",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(sanitizeErrors(bmcCheckCommand(o))...)
	return cmd
}

func bmcCheckCommand(o Options) *cobra.Command {
	s := newSession(o)
	force := false
	cmd := &cobra.Command{
		Use:   "check NODE",
		Short: "Log in to the BMC of a node and read the power of its host, to see what works",
		Long: "Find the BMC of a node, or of NAMESPACE/CLUSTER/NODE for a node of a workload cluster. Read its Secret with your own permissions, log in and read the power of the host. Compare the UUID of its system with that of the node. Nothing is changed.\n" +
			"For a BMC that names a BareMetalHost, read that and whether Metal3 powers the host.\n" +
			"Each line says what works, and what to do about what fails. The user name and the password are never shown.\n\n" +
			"There is one login at most, and none while Fettle leaves the BMC alone since it has refused logins: BMCs lock accounts.\n" +
			"The login is from this machine, whose way to the BMC may differ from that of Fettle's controller.\n\n" +
			"The exit status is 0 when all works, 1 when something does not, and 2 when something could not be checked.",
		Example: fmt.Sprintf("  %[1]s bmc check worker-a\n  %[1]s bmc check worker-a -o json", o.Name),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exitError{errors.New("give the name of one node"), exitNotChecked}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.runBMCCheck(cmd, strings.TrimPrefix(args[0], nodeSubject+"/"), force)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return s.completeNames(cmd, nodeSubject, word), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exitError{err, exitNotChecked} })
	s.addFlags(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "log in although Fettle leaves the BMC alone; the BMC may lock the account")
	return cmd
}

func (s *session) runBMCCheck(cmd *cobra.Command, node string, force bool) error {
	if err := s.open(cmd); err != nil {
		return exitError{err, exitNotChecked}
	}
	result, err := s.bmcCheck(cmd.Context(), node, force)
	if err != nil {
		return exitError{err, exitNotChecked}
	}
	err = s.emit(s.out, result, func() {
		p := &page{Writer: s.out, colours: onTerminal(s.out), at: *result.At}
		p.bmcCheck(result)
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

// bmcCheck checks the BMC of a node.
func (s *session) bmcCheck(ctx context.Context, node string, force bool) (*BMCCheck, error) {
	c := &BMCCheck{Header: Header{APIVersion: APIVersion, Kind: kindBMCCheck, At: instant(s.Now())}, Node: node, Checks: []BMCStep{}}
	bmcs := readBMCsOnce(ctx, s.cluster, s.connection.bmcs)
	if bmcs.unread != "" {
		return nil, errors.New("the BMC of node " + node + " is not known: " + bmcs.unread) //nolint:err113 // told to a person
	}
	if b, found := c.find(bmcs); found {
		state := stateOf(b)
		c.BMC = &state
		if b.Spec.BareMetalHost != nil {
			s.checkMetal3(ctx, c, bmcs, b)
			c.conclude()
			return c, ctx.Err()
		}
		config, usable := c.configure(bmcs, b)
		config.Now = s.Now
		credentials, version, known := s.credentialsForCheck(ctx, c, b)
		held := heldUntil(b, version, *c.At)
		switch {
		case !usable || !known:
			c.skip("what it needs is missing above", config)
		case !held.IsZero() && !force:
			c.HeldUntil = instant(held)
			c.skip(fmt.Sprintf("Fettle tries no login until %s, since the BMC has refused two in succession and may lock the account; "+
				"correct the Secret, or give --force to log in all the same", held.UTC().Format(time.RFC3339)), config)
		default:
			s.checkSystemOf(ctx, c, b, c.login(ctx, config, credentials))
		}
	}
	c.conclude()
	return c, ctx.Err()
}

// add appends the result of a check.
func (c *BMCCheck) add(check, state, format string, args ...any) {
	c.Checks = append(c.Checks, BMCStep{Check: check, State: state, Message: fmt.Sprintf(format, args...)})
}

// find finds the BMC of the node.
func (c *BMCCheck) find(bmcs *bmcReading) (*v1alpha1.BMC, bool) {
	found := bmcs.of(c.Node)
	names := make([]string, 0, len(found))
	for _, b := range found {
		names = append(names, b.Name)
	}
	switch len(found) {
	case 0:
		c.add(checkBMC, fails, "no BMC in namespace %s names node %s; create one%s", bmcs.namespace, c.Node, c.suggestion(bmcs))
		return nil, false
	case 1:
		c.add(checkBMC, works, "%s/%s names node %s", bmcs.namespace, names[0], c.Node)
		return found[0], true
	}
	c.add(checkBMC, fails, "several BMCs name node %s, so Fettle uses none of them: %s; delete all but one", c.Node, firstOf(names, len(names)))
	return nil, false
}

// suggestion names the node of the BMC that the user may have meant.
func (c *BMCCheck) suggestion(bmcs *bmcReading) string {
	if b, named := bmcs.byName[c.Node]; named {
		return fmt.Sprintf(", or give %s, which is the node of the BMC of that name", nodeOf(&b.Spec))
	}
	var nodes []string
	for _, b := range bmcs.inOrder() {
		nodes = append(nodes, nodeOf(&b.Spec))
	}
	if near := closest(c.Node, nodes); len(near) > 0 {
		return "; did you mean " + strings.Join(near, ", ") + "?"
	}
	return ""
}

// configure checks how the BMC is reached.
func (c *BMCCheck) configure(bmcs *bmcReading, b *v1alpha1.BMC) (power.Config, bool) {
	address, field, err := addressOf(&b.Spec)
	if err != nil {
		c.add(checkAddress, fails, "%s can't be used: %v", field, err)
		return power.Config{}, false
	}
	c.Address = address.String()
	trust, field, err := trustOf(b.Spec.TLS)
	if err != nil {
		c.add(checkAddress, fails, "%s can't be used: %v", field, err)
		return power.Config{}, false
	}
	for _, other := range bmcs.inOrder() {
		theirs, _, _ := addressOf(&other.Spec) // zero where it can't be parsed
		if other.Name != b.Name && address.Overlaps(theirs) {
			c.add(checkAddress, fails, "%s is of the same system as the address of BMC %s, so Fettle uses neither; correct one of them", c.Address, other.Name)
			return power.Config{Address: address, Trust: trust}, true
		}
	}
	c.add(checkAddress, works, "%s by %s", c.Address, address.Protocol)
	return power.Config{Address: address, Trust: trust}, true
}

// credentialsForCheck reads the Secret of a BMC. It returns the credentials and the version of the Secret, and false if
// they can't be used.
func (s *session) credentialsForCheck(ctx context.Context, c *BMCCheck, b *v1alpha1.BMC) (credentials power.Credentials, version string, known bool) {
	at := types.NamespacedName{Namespace: s.connection.bmcs, Name: b.Spec.CredentialsName}
	secret, err := s.readSecret(ctx, at)
	switch {
	case apierrors.IsNotFound(err):
		c.add(checkSecret, fails, "there is no Secret %s; create it with the keys %s and %s", at, v1alpha1.UsernameKey, v1alpha1.PasswordKey)
		return credentials, "", false
	case apierrors.IsForbidden(err):
		c.add(checkSecret, unknown, "you may not get Secret %s; an administrator can grant it, or run the check", at)
		return credentials, "", false
	case err != nil:
		c.add(checkSecret, unknown, "Secret %s could not be read: %s", at, failureText(err))
		return credentials, "", false
	}
	if lacks := lackingKeys(secret); len(lacks) > 0 {
		c.add(checkSecret, fails, "%s", lackText(at.String(), lacks))
		return credentials, "", false
	}
	if credentials, err = credentialsOf(secret); err != nil {
		c.add(checkSecret, fails, "Secret %s can't be used: %v", at, err)
		return credentials, "", false
	}
	c.add(checkSecret, works, "Secret %s has the keys %s and %s", at, v1alpha1.UsernameKey, v1alpha1.PasswordKey)
	return credentials, secret.GetResourceVersion(), true
}

// skip adds the checks that need a login, and why there was none.
func (c *BMCCheck) skip(why string, config power.Config) {
	c.add(checkConnection, untested, "%s", why)
	if hasCertificate(config.Address) {
		c.add(checkCertificate, untested, "there was no connection")
	}
	c.add(checkLogin, untested, "there was no connection")
	c.add(checkPower, untested, "there was no login")
}

// hasCertificate reports whether a BMC presents a certificate.
func hasCertificate(a power.Address) bool { return a.Protocol == power.Redfish && !a.Plain }

// credentialsOf returns the credentials in a Secret. An error quotes nothing of them.
func credentialsOf(secret *unstructured.Unstructured) (power.Credentials, error) {
	var values [2]string
	for i, key := range [...]string{v1alpha1.UsernameKey, v1alpha1.PasswordKey} {
		encoded, _, _ := unstructured.NestedString(secret.Object, "data", key) // empty where it is no text
		value, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return power.Credentials{}, power.ConfigError("the value of key " + key + " is no base64")
		}
		values[i] = string(value)
	}
	return power.NewCredentials(values[0], values[1])
}

// conclude sets the outcome.
func (c *BMCCheck) conclude() {
	is := func(states ...string) bool {
		return slices.ContainsFunc(c.Checks, func(s BMCStep) bool { return slices.Contains(states, s.State) })
	}
	switch {
	case is(fails):
		c.Outcome, c.Message = problems, "Not all that Fettle needs to fence node "+c.Node+" works from this machine; what fails stands above."
	case is(unknown, untested):
		c.Outcome, c.Message = notChecked, "Whether Fettle can fence node "+c.Node+" was not checked as a whole."
	default:
		c.Outcome, c.Message = passed, "The BMC of node "+c.Node+" works from this machine."
	}
	if c.Outcome == passed && c.BMC.Reachable == core.No.String() {
		c.Notes = append(c.Notes, "Fettle's controller could not use the BMC when it last tried, and this machine can: the cause may be gone, or lie on the controller's way to it.")
	}
	if c.Address != "" {
		c.Notes = append(c.Notes, "This machine's way to the BMC may differ from that of Fettle's controller: networks, name servers and the authorities of the operating system.")
	}
}
