package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// operation is an operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// mark marks a machine for its owner, in both generations of conditions, as a health check does: with preconditions on
// the machine and its revision. The machine was judged healthy before.
func mark(_ string, now *unstructured.Unstructured) ([]byte, error) {
	const found, requested = "Condition Ready on Node is reporting status False for more than 5s", "Waiting for remediation"
	since := metav1.NewTime(time.Now())
	current := func(kind, reason, message string) metav1.Condition {
		return metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, ObservedGeneration: now.GetGeneration(), LastTransitionTime: since, Reason: reason, Message: message,
		}
	}
	deprecated := func(kind clusterv1.ConditionType, reason, message string) clusterv1.Condition {
		return clusterv1.Condition{
			Type: kind, Status: corev1.ConditionFalse, Severity: clusterv1.ConditionSeverityWarning, LastTransitionTime: since, Reason: reason, Message: message,
		}
	}
	patch := []operation{
		{"test", "/metadata/uid", now.GetUID()},
		{"replace", "/metadata/resourceVersion", now.GetResourceVersion()},
	}
	for _, c := range []struct {
		list             []string
		found            string
		replaced, joined any
	}{
		{
			[]string{"status", "conditions"}, clusterv1.MachineHealthCheckSucceededCondition,
			current(clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineHealthCheckUnhealthyNodeReason, found),
			current(clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, requested),
		},
		{
			[]string{"status", "deprecated", "v1beta1", "conditions"}, string(clusterv1.MachineHealthCheckSucceededV1Beta1Condition),
			deprecated(clusterv1.MachineHealthCheckSucceededV1Beta1Condition, clusterv1.UnhealthyNodeConditionV1Beta1Reason, found),
			deprecated(clusterv1.MachineOwnerRemediatedV1Beta1Condition, clusterv1.WaitingForRemediationV1Beta1Reason, requested),
		},
	} {
		at, err := placeOf(now, c.found, c.list...)
		if err != nil {
			return nil, err
		}
		list := "/" + strings.Join(c.list, "/") + "/"
		patch = append(patch, operation{"replace", list + strconv.Itoa(at), c.replaced}, operation{"add", list + "-", c.joined})
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding a mark: %w", err)
	}
	return body, nil
}

// placeOf returns the index of a condition in a list.
func placeOf(o *unstructured.Unstructured, kind string, list ...string) (int, error) {
	conditions, _, err := unstructured.NestedSlice(o.Object, list...)
	if err != nil {
		return 0, fmt.Errorf("reading the conditions of %s: %w", o.GetName(), err)
	}
	at := slices.IndexFunc(conditions, func(c any) bool {
		fields, _ := c.(map[string]any)
		return fields["type"] == kind
	})
	if at < 0 {
		return 0, fmt.Errorf("%s has no condition %s in %s", o.GetName(), kind, strings.Join(list, "."))
	}
	return at, nil
}
