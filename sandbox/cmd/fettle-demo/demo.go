package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/sandbox/stage"
)

// demo is the stage of the scenario.
type demo struct {
	*stage.Stage

	// plane is the control plane of the stage.
	plane *stage.Process
	// workloads are the control planes of workload clusters, by the name of their Cluster.
	workloads map[string]*stage.Process
}

// cluster is what a scenario needs.
type cluster struct {
	// title and parts describe the scenario.
	title, parts string
	// takes is how long the demo takes, or empty.
	takes string
	// sandbox are flags of fettle-sandbox.
	sandbox []string
	// elects has Fettle hold its lease, so that its commands know that it runs.
	elects bool
	// podLog has the simulated hosts log which pods they run.
	podLog bool
	// kinds are definitions in config/crd that clusters have from other vendors.
	kinds []string
	// folders are folders of config/ that this cluster needs, and other clusters don't.
	folders []string
}

// raise starts the sandbox, installs Fettle's manifests and runs it as its own service account.
func (s *demo) raise(ctx context.Context, c cluster) error {
	title(c.title)
	if c.takes != "" {
		say("this takes %s", c.takes)
	}
	say("starting a control plane: API server, etcd, controller manager, and %s", c.parts)
	flags := append([]string{"--kubelets", "--node-monitor-grace-period", "4s", "--node-monitor-period", "1s"}, c.sandbox...)
	if c.podLog {
		flags = append(flags, "--metal-log", filepath.Join(s.Dir, podLog))
	}
	plane, err := s.StartSandbox(ctx, flags...)
	if err != nil {
		return err
	}
	s.plane = plane
	say("installing Fettle: definitions, a service account and the few rights that it needs")
	if err := s.InstallFettle(ctx, c.kinds...); err != nil {
		return err
	}
	for _, folder := range c.folders {
		if err := s.InstallPart(ctx, folder); err != nil {
			return err
		}
	}
	_, err = s.StartFettle(ctx, "--leader-elect="+strconv.FormatBool(c.elects))
	return err
}

func (s *demo) strike(announce bool) {
	if announce {
		fmt.Println("\nstopping Fettle and the sandbox")
	}
	s.Strike()
}

func (s *demo) sayHowToLookAround(around string) {
	fmt.Printf(`
Everything is still running. In another terminal:

  export KUBECONFIG=%s
%s
Fettle's log is %s/fettle.log. Press Ctrl-C to stop.
`, s.Kubeconfig(), around, s.Dir)
}

// list returns the objects of a kind, in all namespaces.
func (s *demo) list(ctx context.Context, apiVersion, kind string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(apiVersion)
	list.SetKind(kind)
	if err := s.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing %s: %w", strings.TrimSuffix(kind, "List"), err)
	}
	return list.Items, nil
}

// repairs returns a text for each repair.
func (s *demo) repairs(ctx context.Context) (map[string]string, error) {
	repairs, err := s.list(ctx, "fettle.io/v1alpha1", "RepairList")
	texts := map[string]string{}
	for i := range repairs {
		texts[repairs[i].GetName()] = repairText(&repairs[i])
	}
	return texts, err
}

func repairText(u *unstructured.Unstructured) string {
	reason, _, _ := unstructured.NestedString(u.Object, "spec", "reason")
	message, _, _ := unstructured.NestedString(u.Object, "spec", "message")
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	return phase + ": " + reason + ", " + message
}

// conditionOf returns the status, the reason and the message of a condition, or empty ones without one.
func conditionOf(u *unstructured.Unstructured, kind string) (status, reason, message string) {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, condition := range conditions {
		if fields, ok := condition.(map[string]any); ok && fields["type"] == kind {
			status, _ = fields["status"].(string)
			reason, _ = fields["reason"].(string)
			message, _ = fields["message"].(string)
		}
	}
	return status, reason, message
}

func readyText(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return string(c.Status)
		}
	}
	return "not reported"
}

// patch changes an object without a namespace by a merge patch.
func (s *demo) patch(ctx context.Context, apiVersion, kind, name, patch string) error {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetName(name)
	return s.change(ctx, u, patch)
}

// change changes an object by a merge patch.
func (s *demo) change(ctx context.Context, u *unstructured.Unstructured, patch string) error {
	if err := s.Client.Patch(ctx, u, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return fmt.Errorf("patching %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return nil
}

func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
}

// applyText applies a manifest, and prints it if an administrator would write it.
func (s *demo) applyText(ctx context.Context, text []byte, shown bool) error {
	if shown {
		fmt.Println(indented(string(text)))
	}
	objects, err := stage.Decode(text)
	if err != nil {
		return err
	}
	return s.Apply(ctx, objects...)
}
