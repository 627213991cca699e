package metal

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/sandbox/kubelets"
	"github.com/fettle-io/fettle/sandbox/redfish"
)

// world is a fleet with one host, "n", and a clock.
type world struct {
	*fleet
	host *host
	now  time.Time
}

func newWorld(t *testing.T, annotations map[string]string) *world {
	t.Helper()
	w := &world{now: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)}
	w.fleet = newFleet(func() time.Time { return w.now })
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: annotations}}
	node.Status.NodeInfo.BootID = "earlier"
	var err error
	if w.host, err = w.add(node); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	return w
}

// bind binds a running pod of a StatefulSet to the node.
func (w *world) bind() *corev1.Pod {
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "u"},
		Spec:       corev1.PodSpec{NodeName: "n"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	w.setPod(object)
	return object
}

// show lets the kubelet start, as if its Node showed the boot.
func (w *world) show(taints ...corev1.Taint) {
	boot := w.host.facts().boot
	w.setShown(w.host, boot, taints)
	w.setAlive(w.host, boot, true)
}

func (w *world) wantRunning(t *testing.T, when string, want int) {
	t.Helper()
	if got := w.running(); len(got) != want {
		t.Errorf("%s: %d pods run, want %d: %v", when, len(got), want, got)
	}
}

func TestAHostGoesOnWhereItWas(t *testing.T) {
	cases := map[string]struct {
		annotations map[string]string
		power       redfish.PowerState
		sameBoot    bool
	}{
		"a new node": {nil, redfish.On, false},
		"it was on":  {map[string]string{AnnotationHostPower: PowerOn}, redfish.On, true},
		"it was off": {map[string]string{AnnotationHostPower: PowerOff}, redfish.Off, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newWorld(t, tc.annotations).host.facts()
			if f.power != tc.power || f.up != (tc.power == redfish.On) || (f.boot == "earlier") != tc.sameBoot {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestPowerCycle(t *testing.T) {
	w := newWorld(t, nil)
	w.show()
	w.bind()
	w.wantRunning(t, "at first", 1)
	first := w.host.facts().boot
	w.host.turnOff()
	w.wantRunning(t, "without power", 0)
	w.show()
	w.wantRunning(t, "without power, whatever the label says", 0)
	w.host.turnOn()
	if left := w.host.finishBoot(); left != defaultBootTime || w.host.facts().up {
		t.Errorf("the boot takes %v: %+v", left, w.host.facts())
	}
	w.wantRunning(t, "while it boots", 0)
	w.now = w.now.Add(defaultBootTime)
	if left, f := w.host.finishBoot(), w.host.facts(); left != 0 || !f.up || f.shown || f.boot == first {
		t.Errorf("after %v still %v: %+v", defaultBootTime, left, f)
	}
	w.wantRunning(t, "before the kubelet starts", 0)
	w.setAlive(w.host, first, true)
	w.wantRunning(t, "news of an earlier boot", 0)
	w.show()
	w.wantRunning(t, "after the boot", 1)
	if got := w.running()[0].Boot; got == first || got != w.host.facts().boot {
		t.Errorf("it runs in boot %s", got)
	}
	if w.host.turnOn() {
		t.Error("a host that is on boots")
	}
}

func TestPowerOffEndsABoot(t *testing.T) {
	w := newWorld(t, nil)
	w.host.turnOff()
	w.host.turnOn()
	w.host.turnOff()
	w.now = w.now.Add(time.Hour)
	if left := w.host.finishBoot(); left != 0 || w.host.facts().up {
		t.Errorf("%v: %+v", left, w.host.facts())
	}
	if w.host.turnOff() {
		t.Error("a host that is off goes off")
	}
}

func TestTaintsCountWhenTheKubeletStarts(t *testing.T) {
	w := newWorld(t, nil)
	w.host.turnOff()
	w.bind()
	w.host.turnOn()
	w.now = w.now.Add(defaultBootTime)
	w.host.finishBoot()
	w.show(corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute})
	w.wantRunning(t, "the node has the taint", 0)
	w.show()
	w.wantRunning(t, "the taint goes later", 0)
}

func TestAHungHostKeepsItsPods(t *testing.T) {
	w := newWorld(t, nil)
	w.show()
	object := w.bind()
	boot := w.host.facts().boot
	w.setAlive(w.host, boot, false)
	w.removePod(object)
	w.wantRunning(t, "the kubelet is stopped", 1)
	w.setAlive(w.host, boot, true)
	w.wantRunning(t, "the kubelet is back", 0)
}

func TestAPodOfNoHost(t *testing.T) {
	w := newWorld(t, nil)
	w.show()
	for _, node := range []string{"", "other"} {
		object := w.bind()
		w.removePod(object)
		object.Spec.NodeName = node
		w.setPod(object)
		w.wantRunning(t, "on node "+node, 0)
	}
}

func TestStoppedIn(t *testing.T) {
	cases := map[string]struct {
		label, in string
		facts     facts
		want      string
	}{
		"it runs":                        {"", "", facts{up: true, shown: true, boot: "2"}, ""},
		"without power":                  {"", "", facts{boot: "2"}, "2"},
		"stopped by hand":                {kubelets.LabelStopped, "", facts{up: true, shown: true, boot: "2"}, "2"},
		"still stopped":                  {kubelets.LabelStopped, "2", facts{up: true, shown: true, boot: "2"}, "2"},
		"stopped in an earlier boot":     {kubelets.LabelStopped, "1", facts{up: true, shown: true, boot: "2"}, ""},
		"the label is older":             {kubelets.LabelStopped, "", facts{up: true, boot: "2"}, ""},
		"started by hand":                {"", "2", facts{up: true, shown: true, boot: "2"}, ""},
		"another value of the label":     {"slow", "", facts{up: true, shown: true, boot: "2"}, ""},
		"without power, stopped earlier": {kubelets.LabelStopped, "1", facts{shown: true, boot: "2"}, "2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Labels: map[string]string{kubelets.Label: tc.label}, Annotations: map[string]string{AnnotationStoppedIn: tc.in},
			}}
			if got := stoppedIn(node, tc.facts); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// TestCutLink: a boot that begins while the link is cut is shown once the link works, and its kubelet starts then.
func TestCutLink(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{LabelLink: LabelLinkCut}}}
	up, booted := facts{up: true, shown: true, boot: "1"}, facts{up: true, boot: "2"}
	if got := stoppedIn(node, up); got != "" || cutOff(node, up) {
		t.Errorf("the kubelet of a host that was up is stopped in %q", got)
	}
	if got := stoppedIn(node, booted); got != "2" || !cutOff(node, booted) {
		t.Errorf("the kubelet behind a link that is cut is stopped in %q, want 2", got)
	}
	if cutOff(node, facts{boot: "2"}) {
		t.Error("a host that is off is cut off")
	}
	node.Annotations = map[string]string{AnnotationStoppedIn: "2"}
	delete(node.Labels, LabelLink)
	if got := stoppedIn(node, booted); got != "" || cutOff(node, booted) {
		t.Errorf("once the link works, the kubelet is stopped in %q", got)
	}
}
