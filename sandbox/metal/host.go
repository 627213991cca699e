package metal

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/fettle-io/fettle/sandbox/ipmi"
	"github.com/fettle-io/fettle/sandbox/redfish"
)

// host is one machine. Its methods are safe for concurrent use.
type host struct {
	name    string
	label   string // of the Node
	changed func() // called without the lock when the power has changed
	now     func() time.Time
	bmc     *redfish.BMC // set once, before the host is used
	lan     *ipmi.BMC    // the same BMC by IPMI, set with it

	mu       sync.Mutex
	power    redfish.PowerState
	boot     string    // the boot ID; that of the last boot while the host isn't up
	up       bool      // the boot has ended and the power is on
	shown    bool      // the kubelet has found or registered its Node in this boot
	next     string    // the boot ID of the boot under way
	bootsAt  time.Time // when the boot under way ends
	bootTime time.Duration
	records  time.Duration // how long Ironic doesn't read the power again
	record   string        // the power as Ironic has recorded it, or empty
	order    string        // the ordered faults, as they were written
	inForce  string        // the faults in force, as they were written
	refused  string        // why the ordered faults are not in force
	kubelet  kubelet
}

// newHost returns a host for a Node. It goes on as the annotations of an earlier run say.
func newHost(node *corev1.Node, now func() time.Time, changed func()) *host {
	h := &host{
		name: node.Name, label: node.Labels[Label], now: now, changed: changed, bootTime: defaultBootTime, records: defaultLag,
		power: redfish.On, up: true, shown: true, boot: newBootID(),
	}
	earlier := node.Annotations[AnnotationHostPower]
	if id := node.Status.NodeInfo.BootID; earlier != "" && id != "" {
		h.boot = id
	}
	if earlier == PowerOff {
		h.power, h.up = redfish.Off, false
	}
	return h
}

// systemUUID returns the UUID of a host, which its BMC and its kubelet report.
func systemUUID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func newBootID() string { return string(uuid.NewUUID()) }

// State returns the power.
func (h *host) State() redfish.PowerState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.power
}

// PowerOff turns the power off at once.
func (h *host) PowerOff() error {
	if h.turnOff() {
		h.changed()
	}
	return nil
}

func (h *host) turnOff() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.power == redfish.Off {
		return false
	}
	h.power, h.up, h.next = redfish.Off, false, ""
	h.kubelet.stopAll()
	return true
}

// PowerOn turns the power on and begins a boot.
func (h *host) PowerOn() error {
	if h.turnOn() {
		h.changed()
	}
	return nil
}

func (h *host) turnOn() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.power == redfish.On {
		return false
	}
	h.power, h.next, h.bootsAt = redfish.On, newBootID(), h.now().Add(h.bootTime)
	return true
}

// finishBoot ends the boot under way if its time has come. It returns how long that still takes, or 0 if the host doesn't
// boot any more.
func (h *host) finishBoot() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next == "" {
		return 0
	}
	if left := h.bootsAt.Sub(h.now()); left > 0 {
		return left
	}
	h.boot, h.next, h.up, h.shown = h.next, "", true, false
	return 0
}

// setShown notes that the Node shows this boot. The kubelet starts then, and finds these bound pods and taints.
func (h *host) setShown(boot string, bound pods, taints []corev1.Taint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.up || h.boot != boot || h.shown {
		return
	}
	h.shown = true
	h.kubelet.start(bound, taints)
}

// setAlive says whether the kubelet runs in this boot.
func (h *host) setAlive(boot string, alive bool, bound pods) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.up && h.boot == boot {
		h.kubelet.alive = alive
		h.kubelet.settle(bound)
	}
}

// settle has the kubelet see a change of its pods.
func (h *host) settle(bound pods) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kubelet.settle(bound)
}

// leftovers returns the pods that the kubelet has to end in the API.
func (h *host) leftovers(bound pods) []pod {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kubelet.leftovers(bound)
}

// running returns a line for each pod that runs.
func (h *host) running(now time.Time) []line {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := make([]line, 0, len(h.kubelet.running))
	for _, p := range h.kubelet.running {
		lines = append(lines, line{
			Time: now, Node: h.name, Boot: h.boot, Namespace: p.namespace, Name: p.name, UID: p.uid, Owner: p.owner,
		})
	}
	return lines
}

// setBootTime sets how long later boots take.
func (h *host) setBootTime(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bootTime = d
}

// setRecordAge sets how long Ironic doesn't read the power again.
func (h *host) setRecordAge(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = d
}

// setRecord notes the power as Ironic has recorded it.
func (h *host) setRecord(on bool) {
	if h.noteRecord(on) {
		h.changed()
	}
}

func (h *host) noteRecord(on bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.record
	h.record = PowerOff
	if on {
		h.record = PowerOn
	}
	return h.record != before
}

func (h *host) recordAge() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.records
}

// orderFaults puts the faults of an annotation in force, unless they are.
func (h *host) orderFaults(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.order == text {
		return
	}
	h.order = text
	faults, byIPMI, err := parseFaults(text)
	if err != nil {
		h.refused = err.Error()
		return
	}
	h.inForce, h.refused = text, ""
	h.bmc.Order(func(f *redfish.Faults) { *f = faults })
	h.lan.Order(byIPMI)
}

// facts is what the Node shows of a host.
type facts struct {
	label      string
	power      redfish.PowerState
	record     string
	boot       string
	up         bool
	shown      bool
	bootTime   time.Duration
	order      string
	inForce    string
	refused    string
	address    string
	lan        string // the address of IPMI
	thumbprint string
}

func (h *host) facts() facts {
	h.mu.Lock()
	defer h.mu.Unlock()
	sum := sha256.Sum256(h.bmc.Certificate().Raw)
	return facts{
		label: h.label,
		power: h.power, record: h.record, boot: h.boot, up: h.up, shown: h.shown, bootTime: h.bootTime,
		order: h.order, inForce: h.inForce, refused: h.refused,
		address:    "redfish+https://" + h.bmc.Address() + h.bmc.SystemPath(),
		lan:        "ipmi://" + h.lan.Address(),
		thumbprint: hex.EncodeToString(sum[:]),
	}
}
