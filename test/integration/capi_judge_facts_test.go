package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

// place is the subject of a fact: a field or a condition of a machine, or of the health check where the machine is "".
type place struct{ machine, what string }

func (p place) String() string {
	if p.machine == "" {
		return "health check: " + p.what
	}
	return "machine " + p.machine + ": " + p.what
}

// facts are what one side says of a world, by place. A side says nothing about a missing place.
type facts map[place]string

// The facts that explanations name. A condition of the older generation has the prefix older.
const (
	saysExpectedMachines    = "expectedMachines"
	saysCurrentHealthy      = "currentHealthy"
	saysRemediationsAllowed = "remediationsAllowed"
	saysTargets             = "targets"
	saysObserved            = "the generation is observed"
	saysOwnedByCluster      = "has the Cluster's label and owner reference"
	saysHasRequest          = "has a remediation request"
	saysAllowed             = clusterv1.MachineHealthCheckRemediationAllowedCondition
	saysPaused              = clusterv1.PausedCondition
	older                   = "old "
)

// factsOf reads what a side says of all worlds, by namespace.
func factsOf(ctx context.Context, c client.Client) (map[string]facts, error) {
	found := map[string]facts{}
	in := func(namespace string) facts {
		if found[namespace] == nil {
			found[namespace] = facts{}
		}
		return found[namespace]
	}
	var checks clusterv1.MachineHealthCheckList
	if err := c.List(ctx, &checks); err != nil {
		return nil, err
	}
	for i := range checks.Items {
		in(checks.Items[i].Namespace).ofCheck(&checks.Items[i])
	}
	var machines clusterv1.MachineList
	if err := c.List(ctx, &machines); err != nil {
		return nil, err
	}
	for i := range machines.Items {
		in(machines.Items[i].Namespace).ofMachine(&machines.Items[i])
	}
	requests := &unstructured.UnstructuredList{}
	requests.SetAPIVersion(remediators)
	requests.SetKind(rebooting + "List")
	if err := c.List(ctx, requests); err != nil {
		return nil, err
	}
	for _, r := range requests.Items {
		in(r.GetNamespace())[place{r.GetName(), saysHasRequest}] = "yes"
	}
	return found, nil
}

func (f facts) ofCheck(c *clusterv1.MachineHealthCheck) {
	number := func(what string, n *int32) {
		if n != nil {
			f[place{"", what}] = fmt.Sprint(*n)
		}
	}
	number(saysExpectedMachines, c.Status.ExpectedMachines)
	number(saysCurrentHealthy, c.Status.CurrentHealthy)
	number(saysRemediationsAllowed, c.Status.RemediationsAllowed)
	if len(c.Status.Targets) > 0 {
		f[place{"", saysTargets}] = strings.Join(c.Status.Targets, " ")
	}
	if c.Status.ObservedGeneration == c.Generation {
		f[place{"", saysObserved}] = "yes"
	}
	owned := slices.ContainsFunc(c.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Cluster" && o.Name == herdCluster })
	if owned && c.Labels[clusterv1.ClusterNameLabel] == herdCluster {
		f[place{"", saysOwnedByCluster}] = "yes"
	}
	f.current("", c.Status.Conditions)
	if c.Status.Deprecated != nil && c.Status.Deprecated.V1Beta1 != nil {
		f.legacy("", c.Status.Deprecated.V1Beta1.Conditions)
	}
}

// ofMachine reads the conditions that a health check writes or reads.
func (f facts) ofMachine(m *clusterv1.Machine) {
	others := func(kind string) bool { return kind != succeeded && kind != byOwner && kind != externally }
	f.current(m.Name, slices.DeleteFunc(m.Status.Conditions, func(c metav1.Condition) bool { return others(c.Type) }))
	if m.Status.Deprecated != nil && m.Status.Deprecated.V1Beta1 != nil {
		f.legacy(m.Name, slices.DeleteFunc(m.Status.Deprecated.V1Beta1.Conditions, func(c clusterv1.Condition) bool { return others(string(c.Type)) }))
	}
}

func (f facts) current(machine string, conditions []metav1.Condition) {
	for _, c := range conditions {
		f[place{machine, c.Type}] = string(c.Status) + "/" + c.Reason
	}
}

func (f facts) legacy(machine string, conditions []clusterv1.Condition) {
	for _, c := range conditions {
		f[place{machine, older + string(c.Type)}] = string(c.Status) + "/" + c.Reason + "/" + string(c.Severity)
	}
}

// difference is a place about which the two sides say different things.
type difference struct {
	place

	judge, fettle string
}

func (d difference) String() string {
	return fmt.Sprintf("%s is %q to Cluster API, and %q to Fettle", d.place, d.judge, d.fettle)
}

// compareFacts returns the differences in the order of their places.
func compareFacts(sides [2]facts) []difference {
	places := map[place]bool{}
	for _, side := range sides {
		for p := range side {
			places[p] = true
		}
	}
	var differences []difference
	for _, p := range slices.SortedFunc(maps.Keys(places), func(a, b place) int { return strings.Compare(a.String(), b.String()) }) {
		if sides[judge][p] != sides[fettle][p] {
			differences = append(differences, difference{place: p, judge: sides[judge][p], fettle: sides[fettle][p]})
		}
	}
	return differences
}

// factsOfBoth reads both sides at once.
func factsOfBoth(t *testing.T, clients [2]client.Client) ([2]map[string]facts, error) {
	t.Helper()
	var sides [2]map[string]facts
	for i, c := range clients {
		var err error
		if sides[i], err = factsOf(cluster.Context(t), c); err != nil {
			return sides, fmt.Errorf("reading what is said of the worlds: %w", err)
		}
	}
	return sides, nil
}
