package powercycle

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
)

// rack is the BMC of several hosts of one domain. It stores when hosts were commanded on.
type rack struct {
	*httptest.Server

	now func() time.Time

	mu sync.Mutex
	on map[string]bool
	// uuid is that of all systems, or empty.
	uuid string
	// allowed are the resets that all systems list, or nil.
	allowed []string
	// commanded is when each command to power on came, in their order.
	commanded []time.Time
	// read, if set, is called when a system is read, and ended counts the sessions that were given back.
	read  func()
	ended int
	// down has all requests fail, refuses has the commands fail, and stays has hosts stay off.
	down, refuses, stays bool
}

func startRack(t *testing.T) *rack {
	t.Helper()
	r := &rack{on: map[string]bool{}}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		down := r.down
		r.mu.Unlock()
		switch {
		case down:
			w.WriteHeader(http.StatusInternalServerError)
		case q.URL.Path == "/redfish/v1/":
			r.answer(t, w, map[string]any{"Links": map[string]any{"Sessions": map[string]any{"@odata.id": "/redfish/v1/SessionService/Sessions"}}})
		case strings.HasSuffix(q.URL.Path, "/Sessions"):
			w.Header().Set("X-Auth-Token", "token")
			w.Header().Set("Location", q.URL.Path+"/1")
			w.WriteHeader(http.StatusCreated)
		case q.Method == http.MethodDelete:
			r.set(func(r *rack) { r.ended++ })
			w.WriteHeader(http.StatusNoContent)
		case strings.HasSuffix(q.URL.Path, "/Actions/ComputerSystem.Reset"):
			var given struct{ ResetType string }
			if err := json.NewDecoder(q.Body).Decode(&given); err != nil {
				t.Error(err)
			}
			r.command(w, strings.TrimSuffix(q.URL.Path, "/Actions/ComputerSystem.Reset"), given.ResetType == "On")
		default:
			r.answer(t, w, r.system(q.URL.Path))
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *rack) answer(t *testing.T, w http.ResponseWriter, body map[string]any) {
	t.Helper()
	if err := json.NewEncoder(w).Encode(body); err != nil {
		t.Error(err)
	}
}

func (r *rack) system(at string) map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read != nil {
		r.read()
	}
	state := "Off"
	if r.on[path.Base(at)] {
		state = "On"
	}
	return map[string]any{"@odata.id": at, "PowerState": state, "UUID": r.uuid, "Actions": map[string]any{
		"#ComputerSystem.Reset": map[string]any{"target": at + "/Actions/ComputerSystem.Reset", "ResetType@Redfish.AllowableValues": r.allowed},
	}}
}

func (r *rack) command(w http.ResponseWriter, at string, on bool) {
	r.mu.Lock()
	if on {
		r.commanded = append(r.commanded, r.now())
	}
	refuses := r.refuses
	if !refuses && !r.stays {
		r.on[path.Base(at)] = on
	}
	r.mu.Unlock()
	if refuses {
		w.WriteHeader(http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// set changes how the BMCs answer.
func (r *rack) set(change func(*rack)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

// commands returns when the commands came so far.
func (r *rack) commands() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.commanded)
}

func hostKey(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: keyA.Namespace, Name: fmt.Sprintf("host-%d", i)}
}

// newRack returns a remediator in front of a rack of hosts that are off, whose remediations are about to power them on.
func newRack(t *testing.T, count int, change ...func(*v1alpha1.PowerRemediation)) (*world, *rack) {
	t.Helper()
	r := startRack(t)
	objects := []client.Object{secret(testPassword)}
	for i := range count {
		name := hostKey(i).Name
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-node"), CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))}}
		n.Status.NodeInfo.BootID = "boot-1"
		bmc := bmcFor(name, name, "redfish+"+r.URL+"/redfish/v1/Systems/"+name)
		bmc.Spec.Domain, bmc.Spec.TLS = "rack-7", &v1alpha1.BMCTLS{CABundle: certificateOf(r.Server)}
		made := &v1alpha1.PowerRemediation{ObjectMeta: metav1.ObjectMeta{
			Namespace: hostKey(i).Namespace, Name: name, UID: types.UID(name), Finalizers: []string{annotation.PowerFinalizer},
			CreationTimestamp: metav1.NewTime(noon.Add(-time.Minute)),
		}}
		writeRecord(&made.Status, name, fencing.Record{
			Phase: fencing.PoweringOn, Since: noon, Attempt: 1, NodeUID: string(n.UID), BootID: "boot-1", PoweredOff: true,
		})
		for _, c := range change {
			c(made)
		}
		objects = append(objects, n, bmc, made)
	}
	w := newWorld(t, objects...)
	r.now = w.now
	return w, r
}

// reconcileAll reconciles all remediations of a rack each second for a while.
func (w *world) reconcileAll(t *testing.T, count int, seconds time.Duration) {
	t.Helper()
	for range seconds / time.Second {
		for i := range count {
			if err := w.reconcile(t.Context(), hostKey(i)); err != nil {
				t.Fatal(err)
			}
		}
		w.forward(time.Second)
	}
}

// checkApart reports commands of one domain that are not far enough apart.
func checkApart(t *testing.T, commands []time.Time) {
	t.Helper()
	for i := 1; i < len(commands); i++ {
		if apart := commands[i].Sub(commands[i-1]); apart < powerOnPause {
			t.Errorf("command %d came %v after the one before", i, apart)
		}
	}
}

func (r *rack) countOn() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := 0
	for _, on := range r.on {
		if on {
			count++
		}
	}
	return count
}

// TestHostsOfADomainPowerOnApart, also where their BMCs come back at the same moment, or refuse commands or carry none out.
func TestHostsOfADomainPowerOnApart(t *testing.T) {
	const count = 5
	long := func(r *v1alpha1.PowerRemediation) {
		r.Spec.PowerOnTimeout = &metav1.Duration{Duration: time.Hour}
	}
	for sentence, fault := range map[string]func(*rack){
		"none":                             func(*rack) {},
		"BMCs that do not answer":          func(r *rack) { r.down = true },
		"BMCs that refuse the command":     func(r *rack) { r.refuses = true },
		"BMCs that do not carry it out":    func(r *rack) { r.stays = true },
		"the same, and then no more do so": func(r *rack) { r.stays, r.refuses = true, true },
	} {
		t.Run(sentence, func(t *testing.T) {
			w, r := newRack(t, count, long)
			r.set(fault)
			w.reconcileAll(t, count, 100*time.Second)
			r.set(func(r *rack) { r.down, r.refuses, r.stays = false, false, false })
			w.reconcileAll(t, count, 100*time.Second)
			if r.countOn() != count {
				t.Errorf("%d of %d hosts are on", r.countOn(), count)
			}
			checkApart(t, r.commands())
		})
	}
}

// turnsAt are turns whose instants are durations after noon.
type turnsAt struct {
	*turns

	t *testing.T
}

func hostOf(name string) types.NamespacedName { return types.NamespacedName{Name: name} }

// expects checks when a remediation is told to come.
func (a turnsAt) expects(domain, name string, now, want time.Duration) {
	a.t.Helper()
	if got := a.next(domain, hostOf(name), noon.Add(now)); !got.Equal(noon.Add(want)) {
		a.t.Errorf("%v after noon, the turn of %s in %s is expected %v after noon, want %v", now, name, domain, got.Sub(noon), want)
	}
}

// commands checks whether a remediation may command the power now. The command takes a while.
func (a turnsAt) commands(domain, name string, now, took time.Duration, want bool) {
	a.t.Helper()
	if got := a.begin(domain, hostOf(name), noon.Add(now)); got != want {
		a.t.Errorf("%v after noon, %s may power its host in %s on: %t, want %t", now, name, domain, got, want)
	}
	if want {
		a.done(domain, noon.Add(now+took))
	}
}

func TestTurns(t *testing.T) {
	const pause = powerOnPause
	a := turnsAt{newTurns(), t}
	a.expects("rack-1", "a", 0, 0)
	a.expects("rack-2", "b", 0, 0) // another domain doesn't wait
	a.expects("rack-1", "c", 0, pause)
	a.expects("rack-1", "d", time.Second, time.Second+2*pause)
	a.commands("rack-1", "d", time.Second, 0, false)
	a.commands("rack-1", "a", time.Second, time.Second, true)
	a.expects("rack-1", "c", 2*time.Second, 2*time.Second+pause) // the pause begins at the end of the command
	a.commands("rack-1", "c", 2*time.Second+pause-1, 0, false)
	a.expects("rack-1", "a", 2*time.Second, 2*time.Second+3*pause) // a second turn comes after those of others
	a.drop(hostOf("c"))
	a.expects("rack-1", "d", 2*time.Second, 2*time.Second+pause)
	a.commands("rack-1", "d", 2*time.Second+pause, 0, true)
	a.drop(hostOf("a"))
	a.expects("rack-1", "e", time.Hour, time.Hour) // after a pause no host waits
	a.commands("rack-1", "e", time.Hour, 0, true)
	a.expects("rack-1", "f", time.Hour+pause-1, time.Hour+pause)
	a.expects("rack-1", "f", time.Hour+pause, time.Hour+pause)
	a.drop(hostOf("unknown"))
}

// TestTurnsDuringACommand: no other host of the domain has a turn while a command is under way.
func TestTurnsDuringACommand(t *testing.T) {
	a := turnsAt{newTurns(), t}
	if !a.begin("rack-1", hostOf("a"), noon) {
		t.Fatal("the first may not")
	}
	a.expects("rack-1", "b", time.Minute, time.Minute+powerOnPause)
	a.commands("rack-1", "b", time.Minute, 0, false)
	a.commands("rack-2", "c", time.Minute, 0, true)
	a.commands("rack-1", "b", time.Minute+powerOnPause, 0, false)
	a.done("rack-1", noon.Add(2*time.Minute))
	a.commands("rack-1", "b", 2*time.Minute+powerOnPause-1, 0, false)
	a.commands("rack-1", "b", 2*time.Minute+powerOnPause, 0, true)
}

// TestTurnsOfRemediationsThatDoNotCome are passed over, and come first when they do.
func TestTurnsOfRemediationsThatDoNotCome(t *testing.T) {
	const pause = powerOnPause
	a := turnsAt{newTurns(), t}
	a.expects("rack-1", "a", 0, 0)
	a.expects("rack-1", "b", 0, pause)
	a.expects("rack-1", "c", 0, 2*pause)
	a.expects("rack-1", "b", pause-1, 2*pause-1)
	a.expects("rack-1", "b", pause, pause)
	a.expects("rack-1", "c", pause, 2*pause)
	a.expects("rack-1", "a", pause, pause)
	a.expects("rack-1", "b", pause, 2*pause)
	a.commands("rack-1", "b", pause, 0, false)
	a.commands("rack-1", "a", pause, 0, true)
}

// TestTurnsAfterAStart: an earlier process may have powered a host on right before.
func TestTurnsAfterAStart(t *testing.T) {
	a := turnsAt{newTurns(), t}
	a.start(noon)
	a.expects("rack-1", "a", 0, powerOnPause)
	a.commands("rack-1", "a", powerOnPause-1, 0, false)
	a.commands("rack-1", "a", powerOnPause, 0, true)
}

// TestTurnsAreForgotten: domains in which nothing happens any more leave nothing behind, nor does a host whose domain has changed.
func TestTurnsAreForgotten(t *testing.T) {
	a := turnsAt{newTurns(), t}
	for i := range 100 {
		domain, now := fmt.Sprintf("rack-%d", i), time.Duration(i)*powerOnPause
		a.commands(domain, "a", now, 0, true)
		if len(a.domains) > 2 {
			t.Fatalf("%d domains are known", len(a.domains))
		}
	}
	a.expects("busy", "b", time.Hour, time.Hour)
	if !a.begin("busy", hostOf("b"), noon.Add(time.Hour)) {
		t.Fatal("it may not")
	}
	a.expects("waited for", "c", 2*time.Hour, 2*time.Hour)
	a.expects("another", "d", 3*time.Hour, 3*time.Hour)
	if len(a.domains) != 3 {
		t.Errorf("the domains are %v, want those in which a host waits or is powered on", a.domains)
	}
	a.expects("waited for", "c", 3*time.Hour, 3*time.Hour)
	a.expects("another", "c", 3*time.Hour, 3*time.Hour+powerOnPause) // its domain has changed
	a.expects("waited for", "e", 3*time.Hour, 3*time.Hour)
}

// TestARemediationThatEndsLeavesTheQueue of its domain, however it ends.
func TestARemediationThatEndsLeavesTheQueue(t *testing.T) {
	for sentence, end := range map[string]func(*testing.T, *world){
		"it is deleted at once": func(t *testing.T, w *world) {
			t.Helper()
			r := w.remediation(t, hostKey(1))
			r.Finalizers = nil
			if err := w.api.Update(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if err := w.api.Delete(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		},
		"its host is on": func(t *testing.T, w *world) {
			t.Helper()
			r := w.remediation(t, hostKey(1))
			r.Status.Phase = string(fencing.Booting)
			if err := w.api.Status().Update(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		},
		"its BMC is of no domain": func(t *testing.T, w *world) {
			t.Helper()
			bmc := w.bmc(t, hostKey(1).Name)
			bmc.Spec.Domain = ""
			w.bmcs.put(bmc)
		},
		"its BMC is gone": func(_ *testing.T, w *world) {
			w.bmcs.drop(types.NamespacedName{Namespace: bmcNamespace, Name: hostKey(1).Name})
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w, _ := newRack(t, 2)
			for i := range 2 {
				if err := w.reconcile(t.Context(), hostKey(i)); err != nil {
					t.Fatal(err)
				}
			}
			if got := w.turns.domains["rack-7"].waiting; len(got) != 1 || got[0].key != hostKey(1) {
				t.Fatalf("%v wait", got)
			}
			end(t, w)
			w.forward(time.Second)
			if err := w.reconcile(t.Context(), hostKey(1)); err != nil {
				t.Fatal(err)
			}
			if got := w.turns.domains["rack-7"].waiting; len(got) != 0 {
				t.Errorf("%v wait", got)
			}
		})
	}
}

// TestABMCThatDoesNotAnswerHoldsNoTurn: the others of the domain are powered on one after the other.
func TestABMCThatDoesNotAnswerHoldsNoTurn(t *testing.T) {
	w, r := newRack(t, 2)
	dead := w.bmc(t, hostKey(0).Name)
	dead.Spec.Address = "redfish://127.0.0.1:1"
	w.bmcs.put(dead)
	w.reconcileAll(t, 2, 2*time.Second)
	if got := w.turns.domains["rack-7"]; r.countOn() != 1 || got.busy || len(got.waiting) != 0 {
		t.Errorf("%d hosts are on, and the domain is %+v", r.countOn(), got)
	}
}

// TestATurnThatIsLostDuringTheRead: another host is powered on while the BMC is read, so that this one waits.
func TestATurnThatIsLostDuringTheRead(t *testing.T) {
	w, r := newRack(t, 1)
	r.set(func(r *rack) {
		r.read = sync.OnceFunc(func() {
			w.turns.mu.Lock()
			defer w.turns.mu.Unlock()
			w.turns.domains["rack-7"].busy = true
		})
	})
	w.reconcileAll(t, 1, time.Second)
	if got := processing(w.remediation(t, hostKey(0))); got != string(fencing.PowerOnNotDue) || r.countOn() != 0 {
		t.Errorf("%d hosts are on, and the reason to wait is %q", r.countOn(), got)
	}
	w.turns.done("rack-7", w.now())
	w.forward(powerOnPause)
	w.reconcileAll(t, 1, time.Second)
	if r.countOn() != 1 {
		t.Error("the host is not on")
	}
}

// TestLimitFromTheFirstTurn: a host that has waited for its turn has the whole limit after it, and no more than that.
func TestLimitFromTheFirstTurn(t *testing.T) {
	none := int32(0)
	w, r := newRack(t, 2, func(r *v1alpha1.PowerRemediation) { r.Spec.Retries = &none })
	r.set(func(r *rack) { r.refuses = true })
	w.turns.start(noon.Add(5*time.Minute - powerOnPause)) // both wait for longer than the limit
	w.reconcileAll(t, 2, 4*time.Minute)
	if got := w.remediation(t, hostKey(0)).Status; got.Phase != string(fencing.PoweringOn) || processing(w.remediation(t, hostKey(0))) != string(fencing.PowerOnNotDue) || len(r.commands()) != 0 {
		t.Errorf("before its turn, the status is %+v after %d commands", got, len(r.commands()))
	}
	w.reconcileAll(t, 2, 150*time.Second)
	if got := w.remediation(t, hostKey(0)).Status; got.Phase != string(fencing.PoweringOn) {
		t.Errorf("before the limit, the status is %+v", got)
	}
	w.reconcileAll(t, 2, time.Minute)
	if got := w.remediation(t, hostKey(0)).Status; got.Phase != string(fencing.Failed) || got.Reason != string(fencing.PowerOnTimedOut) {
		t.Errorf("after the limit, the status is %+v", got)
	}
	checkApart(t, r.commands())
}

// TestANewPhaseHasItsOwnTurn: its limit doesn't count from a turn of the phase before.
func TestANewPhaseHasItsOwnTurn(t *testing.T) {
	w, r := newRack(t, 1)
	r.set(func(r *rack) { r.refuses = true })
	w.reconcileAll(t, 1, time.Second)
	turn := w.sessions.byKey[hostKey(0)].turn
	w.reconcileAll(t, 1, 10*time.Second)
	if again := w.sessions.byKey[hostKey(0)].turn; turn.IsZero() || !again.Equal(turn) || len(r.commands()) < 2 {
		t.Errorf("the first turn was %v and then %v, after %d commands", turn, again, len(r.commands()))
	}
	aborts := w.remediation(t, hostKey(0))
	aborts.Annotations = map[string]string{v1alpha1.TimedOutAnnotation: "now"}
	if err := w.api.Update(t.Context(), aborts); err != nil {
		t.Fatal(err)
	}
	w.forward(time.Minute)
	w.reconcileAll(t, 1, time.Second)
	if again := w.sessions.byKey[hostKey(0)].turn; !again.After(turn.Add(time.Minute)) {
		t.Errorf("the turn of the next phase was %v, and that of the phase before %v", again, turn)
	}
}
