package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remediationv1 "github.com/fettle-io/fettle/sandbox/api/remediation/v1alpha1"
	"github.com/fettle-io/fettle/sandbox/remediator"
	"github.com/fettle-io/fettle/sandbox/stage"
)

// nodeHealthCheck judges nodes by the NodeHealthCheck of medik8s, on a cluster without machines. No remediator acts on
// its remediation objects: its work would be measured with the API server.
func nodeHealthCheck() dialect {
	return dialect{
		kinds:  []string{"remediation.medik8s.io_nodehealthchecks.yaml"},
		target: nodeName, withoutMachines: true, stands: true,
		remedyCall: remedyCall{
			verb: "create", resource: remediationv1.GroupVersion.WithResource("rebootremediations"),
			namespace: remediators, body: unansweredRemediation,
			noun: "node", participle: "handed to a remediator", many: "remediation objects",
			requested: "remediation requested", seen: "remediation seen",
			shows: func(event watch.EventType, _ *unstructured.Unstructured) bool { return event == watch.Added },
		},
		limits:   limits{processor: "≤ 1.00 ×", memory: "≤ 1.00 ×", passes: "0"},
		checks:   "nodehealthchecks/status",
		check:    nodeCheck("sandbox.fettle.io/v1alpha1", "RebootRemediationTemplate", remediators, "unanswered"),
		install:  func(ctx context.Context, s *stage.Stage) error { return remediator.Install(ctx, s.Admin) },
		populate: makeTemplate,
		healthy:  healthyNodes,
	}
}

// remediators is the namespace of templates, and of the objects made from them.
const remediators = "remediators"

// nodeCheck returns a health check of all workers whose template is of a kind. Its limit is still to be formatted in.
func nodeCheck(apiVersion, kind, namespace, name string) string {
	return `
apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata: {name: workers}
spec:
  selector: {matchExpressions: [{key: node-role.kubernetes.io/worker, operator: Exists}]}
  unhealthyConditions:
  - {type: Ready, status: "False", duration: %[1]s}
  - {type: Ready, status: Unknown, duration: %[1]s}
  maxUnhealthy: 100%%
  remediationTemplate: {apiVersion: ` + apiVersion + ", kind: " + kind + ", namespace: " + namespace + ", name: " + name + `}
`
}

const unanswered = `
apiVersion: v1
kind: Namespace
metadata: {name: ` + remediators + `}
---
apiVersion: sandbox.fettle.io/v1alpha1
kind: RebootRemediationTemplate
metadata: {name: unanswered, namespace: ` + remediators + `}
spec: {template: {spec: {outcome: Ignore}}}
`

// makeTemplate makes the template of the remediation objects. There are no machines.
func makeTemplate(ctx context.Context, s *stage.Stage, _ cluster) (int, error) {
	objects, err := stage.Decode([]byte(unanswered))
	if err != nil {
		return 0, err
	}
	return 0, s.Apply(ctx, objects...)
}

// unansweredRemediation is an object made from the template.
func unansweredRemediation(node string, _ *unstructured.Unstructured) ([]byte, error) {
	body, err := json.Marshal(remediationv1.RebootRemediation{
		TypeMeta: metav1.TypeMeta{APIVersion: remediationv1.GroupVersion.String(), Kind: "RebootRemediation"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: remediators, Name: node,
			Annotations: map[string]string{"remediation.medik8s.io/node-name": node, "remediation.medik8s.io/template-name": "unanswered"},
		},
		Spec: remediationv1.RemediationSpec{Outcome: remediationv1.OutcomeIgnore},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding a remediation object: %w", err)
	}
	return body, nil
}

func healthyNodes(ctx context.Context, c client.Client) (int, error) {
	return healthyIn(ctx, c, schema.GroupVersionKind{Group: "remediation.medik8s.io", Version: "v1alpha1", Kind: "NodeHealthCheck"}, "healthyNodes")
}

// mendNodes makes the broken nodes Ready again, and Fettle then deletes its remediation objects.
func (r *run) mendNodes(ctx context.Context) error {
	indices := r.indices(true)
	return inParallel(ctx, len(indices), func(ctx context.Context, i int) error {
		return patiently(func() error { return r.kubelets.mend(ctx, indices[i]) })
	})
}

// mend makes a node Ready as of now.
func (k kubelets) mend(ctx context.Context, i int) error {
	patch, err := recovery(time.Now())
	if err != nil {
		return err
	}
	return k.patch(ctx, i, patch)
}

// recovery returns the patch by which a kubelet reports that its node has just become ready again.
func recovery(now time.Time) ([]byte, error) {
	return statusPatch([]map[string]any{{
		"type": corev1.NodeReady, "status": corev1.ConditionTrue, "reason": "KubeletReady", "message": "kubelet is posting ready status",
		"lastHeartbeatTime": metav1.NewTime(now), "lastTransitionTime": metav1.NewTime(now),
	}})
}
