package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stmcginnis/gofish/schemas"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/sandbox/metal"
)

// logPause is so long that the log surely has a line in it, also on a busy machine.
const logPause = 2 * time.Second

// place is where a pod runs, as the log of running pods has it.
type place struct{ Node, Boot, Namespace, Name, UID, Owner string }

func placeOf(pod *corev1.Pod, node *corev1.Node, owner string) place {
	return place{
		Node: node.Name, Boot: node.Status.NodeInfo.BootID,
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Owner: owner,
	}
}

// lastRan returns when the log has the pod there last, or zero.
func lastRan(t *testing.T, log string, wanted place) time.Time {
	t.Helper()
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var last time.Time
	for l := range bytes.Lines(raw) {
		var line struct {
			place

			Time time.Time
		}
		if !bytes.HasSuffix(l, []byte("\n")) {
			continue
		}
		if err := json.Unmarshal(l, &line); err != nil {
			t.Fatalf("parsing %s: %v", l, err)
		}
		if line.place == wanted {
			last = line.Time
		}
	}
	return last
}

// runsSince returns an error text unless the log gets lines of the pod that are newer than that instant.
func runsSince(t *testing.T, log string, wanted place, since time.Time) string {
	t.Helper()
	if last := lastRan(t, log, wanted); !last.After(since) {
		return fmt.Sprintf("the log has %+v last at %v", wanted, last)
	}
	return ""
}

func awaitRun(t *testing.T, log string, wanted place) {
	t.Helper()
	since := time.Now()
	eventually(t, "the pod runs", func() string { return runsSince(t, log, wanted, since) })
}

func neverRuns(t *testing.T, log string, wanted place) {
	t.Helper()
	since := time.Now()
	never(t, "the pod doesn't run", logPause, func() string {
		if runsSince(t, log, wanted, since) == "" {
			return "it does"
		}
		return ""
	})
}

func startsAgain(t *testing.T, c client.Client, log string) {
	t.Helper()
	before := newHost(t, c, "restarted")
	pod := newPod("restarted", before.Name)
	create(t, c, pod)
	awaitRun(t, log, placeOf(pod, before, ""))
	reset(t, before, schemas.ForceOffResetType)
	neverRuns(t, log, placeOf(pod, before, ""))
	reset(t, before, schemas.OnResetType)
	eventually(t, "the host boots", func() string { return bootedAnew(c, before) })
	after := before.DeepCopy()
	get(t, c, after)
	awaitRun(t, log, placeOf(pod, after, ""))
	neverRuns(t, log, placeOf(pod, before, ""))
	remove(t, c, pod)
	eventually(t, "the pod ends", func() string { return gone(c, pod) })
	neverRuns(t, log, placeOf(pod, after, ""))
}

// runsTwice deletes a pod of a hung node by force. The API has forgotten it, and the host has not.
func runsTwice(t *testing.T, c client.Client, log string) {
	t.Helper()
	hung, other := newHost(t, c, "split-a"), newHost(t, c, "split-b")
	labels := map[string]string{"app": "split"}
	create(t, c, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "split", Namespace: "default"},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: newPod("", "").Spec,
			},
		},
	})
	first := bind(t, c, "split-0", hung)
	awaitRun(t, log, placeOf(first, hung, "split"))
	patch(t, c, hung, stopKubelet)
	eventually(t, "the node falls silent", func() string { return readyIs(c, hung.Name, corev1.ConditionUnknown) })
	if err := c.Delete(context.Background(), first, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	second := bind(t, c, "split-0", other)
	awaitRun(t, log, placeOf(second, other, "split"))
	awaitRun(t, log, placeOf(first, hung, "split"))
	reset(t, hung, schemas.ForceOffResetType)
	neverRuns(t, log, placeOf(first, hung, "split"))
	awaitRun(t, log, placeOf(second, other, "split"))
}

// bind binds a pod of that name to the node, as soon as such a pod has no node.
func bind(t *testing.T, c client.Client, name string, node *corev1.Node) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	eventually(t, "the pod can be bound", func() string {
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err.Error()
		}
		if pod.Spec.NodeName != "" {
			return "it is on " + pod.Spec.NodeName
		}
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node.Name}}
		if err := c.SubResource("binding").Create(context.Background(), pod, binding); err != nil {
			return err.Error()
		}
		return ""
	})
	return pod
}

// TestMetalGoesOn: a sandbox that starts again has the hosts of its last run.
func TestMetalGoesOn(t *testing.T) {
	t.Parallel()
	args := []string{"--dir", t.TempDir(), "--kubelets", "--metal"}
	p := start(t, args...)
	c := connect(t, p.kubeconfig)
	on, off := newHost(t, c, "on"), newHost(t, c, "off")
	reset(t, off, schemas.ForceOffResetType)
	eventually(t, "the host is off", func() string { return annotated(c, off, metal.AnnotationHostPower, metal.PowerOff) })
	p.terminate()
	p = start(t, args...)
	c = connect(t, p.kubeconfig)
	for _, node := range []*corev1.Node{on, off} {
		before := node.DeepCopy()
		eventually(t, "the host has another BMC", func() string {
			get(t, c, node)
			if node.Annotations[metal.AnnotationFingerprint] == before.Annotations[metal.AnnotationFingerprint] {
				return "its fingerprint is the same"
			}
			return ""
		})
		system, err := bmcOf(t, node)
		if err != nil || !strings.EqualFold(string(system.PowerState), before.Annotations[metal.AnnotationHostPower]) {
			t.Errorf("the BMC of host %s says %+v, %v", node.Name, system, err)
		}
		if now, then := node.Status.NodeInfo.BootID, before.Status.NodeInfo.BootID; now != then {
			t.Errorf("the boot ID of host %s is %s, and was %s", node.Name, now, then)
		}
	}
	reset(t, off, schemas.OnResetType)
	eventually(t, "the host boots", func() string { return bootedAnew(c, off) })
}

// TestMetalNeedsKubelets: a flag that would be of no use is refused.
func TestMetalNeedsKubelets(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--metal"}, {"--kubelets", "--metal-log", "pods.log"}, {"--kubelets", "--bmc-log", "requests.log"}} {
		_, stderr, code := run(t, append([]string{"--dir", t.TempDir()}, args...)...)
		if code == 0 || stderr == "" {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
	}
}
