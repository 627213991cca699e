package machineapi

import (
	"cmp"
	"math"
	"slices"
	"time"

	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
)

// Priorities of deletion. The machine with the highest goes first.
const (
	mustDelete   = 100.0
	betterDelete = 50.0
	couldDelete  = 40.0
	mayDelete    = 20.0

	decayDays = 100.0
)

// victims returns the n machines to delete, by the policy. Of equal ones it takes the first by name.
func victims(policy string, machines []*machinev1.Machine, n int, now time.Time) []*machinev1.Machine {
	sorted := slices.Clone(machines)
	slices.SortStableFunc(sorted, func(a, b *machinev1.Machine) int {
		if c := cmp.Compare(priority(policy, b, now), priority(policy, a, now)); c != 0 {
			return c
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return sorted[:min(n, len(sorted))]
}

func priority(policy string, machine *machinev1.Machine, now time.Time) float64 {
	marked := isMarked(machine) || machine.Status.ErrorReason != nil || machine.Status.ErrorMessage != nil
	switch {
	case !machine.DeletionTimestamp.IsZero():
		return mustDelete
	case policy == machinev1.DeleteOldest || policy == machinev1.DeleteNewest:
		if marked {
			return mustDelete
		}
		age := oldness(machine, now)
		if policy == machinev1.DeleteNewest {
			return mustDelete - age
		}
		return age
	case marked:
		return betterDelete
	case machine.Status.NodeRef == nil:
		return couldDelete
	default:
		return mayDelete
	}
}

// oldness grows from 0 towards 50 with the machine's age.
func oldness(machine *machinev1.Machine, now time.Time) float64 {
	days := now.Sub(machine.CreationTimestamp.Time).Hours() / 24
	return betterDelete * (1 - math.Exp(-days/decayDays))
}

func isMarked(machine *machinev1.Machine) bool {
	return machine.Annotations[machinev1.DeleteAnnotation] != "" || machine.Annotations[machinev1.OldDeleteAnnotation] != ""
}
