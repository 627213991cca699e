package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/guard/upgrade"
	"github.com/fettle-io/fettle/internal/ledger"
	"github.com/fettle-io/fettle/internal/servedapi"
)

// The names of the remediators in flags.
const (
	machineDeletionRemediator = "machine-deletion"
	powerCycleRemediator      = "power"
	selfFenceRemediator       = "self-fence"
)

func allRemediators() []string {
	return []string{machineDeletionRemediator, powerCycleRemediator, selfFenceRemediator}
}

// remediates reports whether one of Fettle's own remediators runs.
func (o *controllerOptions) remediates(remediator string) bool {
	return slices.Contains(o.remediators, remediator)
}

func (o *controllerOptions) checkParts() error {
	problems := []error{
		checkNames("dialects", o.dialects, dialectNames()), checkNames("remediators", o.remediators, allRemediators()),
	}
	if len(o.dialects)+len(o.remediators) == 0 {
		problems = append(problems, errors.New("--dialects and --remediators are both empty, so there is nothing to run; name at least one"))
	}
	return errors.Join(problems...)
}

func checkNames(flag string, given, known []string) error {
	for _, name := range given {
		if !slices.Contains(known, name) {
			return fmt.Errorf("--%s has %q; it takes a list of %s", flag, name, strings.Join(known, ", "))
		}
	}
	return nil
}

// ownRights names the manifests that grant the rights of every installation.
const ownRights = "config, or the chart, of this version"

// readsNodes is the right that every part needs that watches nodes.
//
//nolint:gochecknoglobals // a constant
var readsNodes = servedapi.Read{Kind: corev1.SchemeGroupVersion.WithKind("Node")}

// parts returns the parts that start once the cluster serves their kinds.
func (r *components) parts(o controllerOptions) []servedapi.Part {
	parts := []servedapi.Part{
		{
			Name: "the ledger of repairs", Kinds: []string{ledger.Kind}, Watch: r.repairs.Watch, HasSynced: r.repairs.HasSynced,
			Reads: servedapi.ReadsOf(v1alpha1.GroupVersion, "Repair"), Grants: ownRights,
		},
		{
			Name: "upgrades of the cluster", Kinds: upgrade.Kinds, Watch: r.upgrades.Watch, HasSynced: r.upgrades.HasSynced,
			Reads: []servedapi.Read{{Kind: upgrade.VersionKind}}, Grants: ownRights,
		},
	}
	if o.remediates(machineDeletionRemediator) {
		parts = append(parts, deletionPart(r.deletion))
	}
	if o.remediates(powerCycleRemediator) {
		parts = append(parts, powerPart(r.power))
	}
	if o.remediates(selfFenceRemediator) {
		parts = append(parts, selfFencePart(r.selfFence), fenceStatusPart(r.fenceStatus), signerPart(r.signer))
	}
	for _, d := range o.servedDialects() {
		parts = append(parts, d.parts(r)...)
	}
	return parts
}
