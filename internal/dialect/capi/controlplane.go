package capi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/lenient"
)

// The annotations and defaults of KubeadmControlPlane. They are repeated here since its module would add kubeadm's
// types to the dependencies.
const (
	controlPlaneGroup = "controlplane.cluster.x-k8s.io"
	// replacingAnnotation, on a control plane, names the machine that it is replacing.
	replacingAnnotation = controlPlaneGroup + "/remediation-in-progress"
	// replacesAnnotation, on a machine, names the machine that it has replaced.
	replacesAnnotation = controlPlaneGroup + "/remediation-for"
	// defaultMinHealthyPeriod is the period of a control plane that sets none.
	defaultMinHealthyPeriod = time.Hour
)

// Wait is a condition that an owner waits for before it replaces a machine.
type Wait struct {
	// Text describes the condition in a sentence without its full stop. Hint says what a user can do, and is empty if
	// the user can do nothing.
	Text, Hint string
	// Until is the time at which the wait ends by itself. It is zero if time alone does not end it.
	Until time.Time
}

// controlPlane has the fields of a KubeadmControlPlane that decide when it replaces machines
// (docs/reference/cluster-api.md#kubeadmcontrolplane).
type controlPlane struct {
	name string
	// maxRetry is nil if the number of retries has no limit.
	maxRetry                      *int32
	retryPeriod, minHealthyPeriod time.Duration
	// fields are the paths of these settings in the version that was read.
	fields fieldPaths
	// replacing is the replacement under way.
	replacing replacement
	// last is the latest replacement that the control plane has begun.
	last        replacement
	initialized bool
	paused      bool
	// wrong describes the fields that can't be read.
	wrong []string
}

// fieldPaths are the paths of settings.
type fieldPaths struct{ maxRetry, retryPeriod, minHealthyPeriod string }

// replacement is the replacement of one machine, as annotations and the status record it. The zero value is no
// replacement.
type replacement struct {
	// Machine is the name of the machine that was replaced.
	Machine string `json:"machine"`
	// At is the time at which its deletion was requested.
	At time.Time `json:"timestamp"`
	// Retries is the number of replacements in a row that had failed before.
	Retries int32 `json:"retryCount"`

	// unreadable is an excerpt of an annotation that can't be read.
	unreadable string
}

// readReplacement parses the value of an annotation.
func readReplacement(annotations map[string]string, key string) replacement {
	value, set := annotations[key]
	if !set {
		return replacement{}
	}
	var r replacement
	if err := json.Unmarshal([]byte(value), &r); err != nil {
		return replacement{unreadable: lenient.Quote(value)}
	}
	return r
}

// seconds converts a number of seconds to a duration, and returns the other duration if the number is missing.
func seconds(n *int32, otherwise time.Duration) time.Duration {
	if n == nil {
		return otherwise
	}
	return time.Duration(*n) * time.Second
}

// readControlPlane reads a KubeadmControlPlane of either version. It treats a field that can't be read as absent, and
// reports it in wrong.
func readControlPlane(u *unstructured.Unstructured) controlPlane {
	spec, wrong := lenient.Part[struct {
		Remediation *struct {
			MaxRetry                *int32 `json:"maxRetry"`
			RetryPeriodSeconds      *int32 `json:"retryPeriodSeconds"`
			MinHealthyPeriodSeconds *int32 `json:"minHealthyPeriodSeconds"`
		} `json:"remediation"`
		RemediationStrategy *struct {
			MaxRetry         *int32           `json:"maxRetry"`
			RetryPeriod      metav1.Duration  `json:"retryPeriod"`
			MinHealthyPeriod *metav1.Duration `json:"minHealthyPeriod"`
		} `json:"remediationStrategy"`
	}](u.Object, "spec")
	status, alsoWrong := lenient.Part[struct {
		Initialized    bool `json:"initialized"`
		Initialization struct {
			ControlPlaneInitialized bool `json:"controlPlaneInitialized"`
		} `json:"initialization"`
		LastRemediation struct {
			Machine    string       `json:"machine"`
			Time       *metav1.Time `json:"time"`
			Timestamp  *metav1.Time `json:"timestamp"`
			RetryCount int32        `json:"retryCount"`
		} `json:"lastRemediation"`
	}](u.Object, "status")
	annotations := u.GetAnnotations()
	_, paused := annotations[clusterv1.PausedAnnotation]
	k := controlPlane{
		name: u.GetName(), paused: paused, minHealthyPeriod: defaultMinHealthyPeriod,
		fields:      fieldPaths{"spec.remediation.maxRetry", "spec.remediation.retryPeriodSeconds", "spec.remediation.minHealthyPeriodSeconds"},
		initialized: status.Initialized || status.Initialization.ControlPlaneInitialized,
		replacing:   readReplacement(annotations, replacingAnnotation),
		last:        replacement{Machine: status.LastRemediation.Machine, Retries: status.LastRemediation.RetryCount},
	}
	if at := cmp.Or(status.LastRemediation.Time, status.LastRemediation.Timestamp); at != nil {
		k.last.At = at.Time
	}
	for _, w := range append(wrong, alsoWrong...) {
		k.wrong = append(k.wrong, w.Field+" is "+w.Value+" and can't be read")
	}
	switch {
	case spec.Remediation != nil:
		r := spec.Remediation
		k.maxRetry, k.retryPeriod, k.minHealthyPeriod = r.MaxRetry, seconds(r.RetryPeriodSeconds, 0), seconds(r.MinHealthyPeriodSeconds, defaultMinHealthyPeriod)
	case spec.RemediationStrategy != nil:
		r := spec.RemediationStrategy
		k.fields = fieldPaths{"spec.remediationStrategy.maxRetry", "spec.remediationStrategy.retryPeriod", "spec.remediationStrategy.minHealthyPeriod"}
		k.maxRetry, k.retryPeriod = r.MaxRetry, r.RetryPeriod.Duration
		if r.MinHealthyPeriod != nil {
			k.minHealthyPeriod = r.MinHealthyPeriod.Duration
		}
	}
	return k
}

// rules returns the rules by which a control plane replaces machines, as sentences.
func (k *controlPlane) rules() []string {
	retries := "any number of times (" + k.fields.maxRetry + " is not set)"
	if k.maxRetry != nil {
		retries = fmt.Sprintf("at most %d times (%s)", *k.maxRetry, k.fields.maxRetry)
	}
	rules := []string{fmt.Sprintf("A replacement that fails is replaced again, %s, %s after the one before (%s); what fails %s or later after that counts as a new fault (%s)",
		retries, k.retryPeriod, k.fields.retryPeriod, k.minHealthyPeriod, k.fields.minHealthyPeriod)}
	if k.last.Machine != "" {
		rules = append(rules, fmt.Sprintf("The last that it replaced is %s, at %s, after %d retries", k.last.Machine, stamp(k.last.At), k.last.Retries))
	}
	return append(rules, k.wrong...)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.UTC().Format(time.RFC3339)
}

// waits returns what a control plane waits for before it replaces a machine that requests it, in the order of the
// control plane's own checks. before is the replacement from which the machine itself came. Only the control plane can
// tell whether etcd would keep its quorum.
func (k *controlPlane) waits(machine *clusterapi.Machine, members []*clusterapi.Machine, before replacement, now time.Time) []Wait {
	var waits []Wait
	add := func(w Wait, is bool) {
		if is {
			waits = append(waits, w)
		}
	}
	add(Wait{
		Text: "annotation " + clusterv1.PausedAnnotation + " is on the control plane, which does nothing as long as it is", Hint: "remove the annotation",
	}, k.paused)
	add(k.busy(machine, members))
	add(k.others(machine, members))
	add(k.retry(before, now))
	if k.initialized {
		add(onlyMember(members))
		add(joining(members))
	}
	return waits
}

// busy reports a replacement under way, since a control plane replaces one machine at a time. The replacement is over
// when a newer machine exists.
func (k *controlPlane) busy(machine *clusterapi.Machine, members []*clusterapi.Machine) (Wait, bool) {
	r := &k.replacing
	switch {
	case r.unreadable != "":
		return Wait{
			Text: fmt.Sprintf("annotation %s on the control plane is %s, which it can't read, so it fails in each pass", replacingAnnotation, r.unreadable),
			Hint: "remove the annotation from the control plane",
		}, true
	case r.Machine == "" || slices.ContainsFunc(members, func(m *clusterapi.Machine) bool { return m.CreationTimestamp.After(r.At) }):
		return Wait{}, false
	case r.Machine == machine.Name:
		return Wait{Text: fmt.Sprintf("it has begun to replace this machine at %s, and the replacement is not there yet", stamp(r.At))}, true
	}
	return Wait{
		Text: fmt.Sprintf("it replaces %s since %s, whose replacement is not there yet, and it replaces one at a time", r.Machine, stamp(r.At)),
		Hint: "see what keeps it from making that, in the conditions and events of the control plane",
	}, true
}

// others reports a machine that goes first. A control plane replaces none while a machine is being deleted, and begins
// with the most broken one.
func (k *controlPlane) others(machine *clusterapi.Machine, members []*clusterapi.Machine) (Wait, bool) {
	for _, m := range members {
		if m.DeletionTimestamp != nil && m.Name != machine.Name {
			return Wait{
				Text: fmt.Sprintf("machine %s is being deleted, and it replaces one at a time", m.Name),
				Hint: "if that takes long, see which finalizer or drain holds it: kubectl describe machine " + m.Name,
			}, true
		}
	}
	if first := firstToReplace(members); first != nil && first.Name != machine.Name {
		return Wait{Text: fmt.Sprintf("machine %s has the same request and goes first: the most broken does, then the oldest", first.Name)}, true
	}
	return Wait{}, false
}

// retry reports a pause between retries, by the history of the machine itself. A control plane sets no timer. It goes
// on with the first change after that instant, or at its next resync.
func (k *controlPlane) retry(before replacement, now time.Time) (Wait, bool) {
	if before.unreadable != "" {
		return Wait{
			Text: fmt.Sprintf("annotation %s on the machine is %s, which the control plane can't read", replacesAnnotation, before.unreadable), Hint: "remove the annotation from the machine",
		}, true
	}
	anew := before.At.Add(k.minHealthyPeriod)
	if !now.Before(anew) {
		return Wait{}, false
	}
	if k.maxRetry != nil && before.Retries >= *k.maxRetry {
		return Wait{
			Text:  fmt.Sprintf("it replaces %s, whose replacement began at %s as retry %d, and %s is %d", before.Machine, stamp(before.At), before.Retries, k.fields.maxRetry, *k.maxRetry),
			Hint:  fmt.Sprintf("raise %s, or remove annotation %s from the machine", k.fields.maxRetry, replacesAnnotation),
			Until: anew,
		}, true
	}
	again := before.At.Add(k.retryPeriod)
	if !now.Before(again) {
		return Wait{}, false
	}
	if anew.Before(again) {
		again = anew
	}
	return Wait{
		Text:  fmt.Sprintf("it replaces %s, whose replacement began at %s, and %s is %s", before.Machine, stamp(before.At), k.fields.retryPeriod, k.retryPeriod),
		Hint:  fmt.Sprintf("shorten %s, or remove annotation %s from the machine", k.fields.retryPeriod, replacesAnnotation),
		Until: again,
	}, true
}

// onlyMember reports the last machine of an initialized control plane, which is never replaced.
func onlyMember(members []*clusterapi.Machine) (Wait, bool) {
	return Wait{
		Text: "it is the only machine of its control plane, and with it the cluster would be lost", Hint: "have more machines in the control plane (spec.replicas), then the broken one is replaced",
	}, len(members) <= 1
}

// joining reports a machine that has no node yet. The control plane waits until it joins or fails.
func joining(members []*clusterapi.Machine) (Wait, bool) {
	for _, m := range members {
		if m.Node == "" && !failing(m) {
			return Wait{Text: fmt.Sprintf("machine %s is yet to join the cluster, or to fail", m.Name)}, true
		}
	}
	return Wait{}, false
}

func failing(m *clusterapi.Machine) bool { return isFalse(m.Mark(clusterapi.Current, healthType)) }

// requestsReplacement reports whether a machine requests its replacement, by the conditions that owners read.
func requestsReplacement(m *clusterapi.Machine) bool {
	return failing(m) && isFalse(m.Mark(clusterapi.Current, clusterv1.MachineOwnerRemediatedCondition))
}

func isFalse(m *clusterapi.Mark) bool { return m != nil && m.Status == string(metav1.ConditionFalse) }

// severityOrder are the conditions by which a control plane ranks broken machines. The first condition that differs
// decides.
var severityOrder = [...]string{
	"EtcdMemberHealthy", "EtcdPodHealthy", "APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy", "NodeKubeadmLabelsAndTaintsSet",
}

// firstToReplace returns the machine that a control plane replaces first, or nil if no machine requests it. With an
// external etcd no machine has the conditions of etcd, so these decide nothing.
func firstToReplace(members []*clusterapi.Machine) *clusterapi.Machine {
	var asking []*clusterapi.Machine
	for _, m := range members {
		if requestsReplacement(m) {
			asking = append(asking, m)
		}
	}
	if len(asking) == 0 {
		return nil
	}
	return slices.MinFunc(asking, func(a, b *clusterapi.Machine) int {
		order := cmp.Or(falseFirst(!a.RemediationRequested(), !b.RemediationRequested()), falseFirst(a.Node != "", b.Node != ""))
		for _, kind := range severityOrder {
			order = cmp.Or(order, falseFirst(isTrue(a, kind), isTrue(b, kind)))
		}
		return cmp.Or(order, a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
}

func isTrue(m *clusterapi.Machine, kind string) bool {
	for i := range m.Conditions {
		if c := m.Conditions[i].Full(); c.Type == kind {
			return c.Status == string(metav1.ConditionTrue)
		}
	}
	return false
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
