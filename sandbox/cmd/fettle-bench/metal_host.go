package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/sandbox/redfish"
)

// The credentials of all BMCs.
const (
	bmcUser     = "fettle"
	bmcPassword = "bench-secret"
)

// bmcHost is a host that has nothing but its power, with the emulated BMC that commands it.
type bmcHost struct {
	off atomic.Bool
	bmc *redfish.BMC
}

func startHost() (*bmcHost, error) {
	h := &bmcHost{}
	var err error
	if h.bmc, err = redfish.Start(redfish.Config{User: bmcUser, Password: bmcPassword, Host: h}); err != nil {
		return nil, fmt.Errorf("starting a BMC: %w", err)
	}
	return h, nil
}

// PowerOn turns the power on.
func (h *bmcHost) PowerOn() error {
	h.off.Store(false)
	return nil
}

// PowerOff turns the power off.
func (h *bmcHost) PowerOff() error {
	h.off.Store(true)
	return nil
}

// State returns the power.
func (h *bmcHost) State() redfish.PowerState {
	if h.off.Load() {
		return redfish.Off
	}
	return redfish.On
}

// hang has the BMC answer nothing, or answer again.
func (h *bmcHost) hang(yes bool) { h.bmc.Order(func(f *redfish.Faults) { f.Hangs = yes }) }

// offSince returns when the BMC has received power-offs that it carried out, and onSince power-ons.
func (h *bmcHost) offSince(then time.Time) []time.Time {
	return resets(h.bmc.Requests(), redfish.ResetForceOff, then)
}

func (h *bmcHost) onSince(then time.Time) []time.Time {
	return resets(h.bmc.Requests(), redfish.ResetOn, then)
}

// resets returns when a BMC has received the resets of a type that it carried out.
func resets(requests []redfish.Request, kind redfish.ResetType, then time.Time) []time.Time {
	var at []time.Time
	for _, q := range requests {
		if q.Reset == kind && q.Status == http.StatusNoContent && !q.At.Before(then) {
			at = append(at, q.At)
		}
	}
	return at
}

// fingerprint returns the SHA-256 of the certificate of the BMC.
func (h *bmcHost) fingerprint() string {
	sum := sha256.Sum256(h.bmc.Certificate().Raw)
	return hex.EncodeToString(sum[:])
}

// bmcObjects returns the BMC of a node in a rack, and the Secret with its credentials.
func bmcObjects(node, rack int, h *bmcHost) []client.Object {
	name := fmt.Sprintf("bmc-%d", node)
	bmc := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"nodeName": nodeName(node), "address": "redfish://" + h.bmc.Address() + h.bmc.SystemPath(), "credentialsName": name,
		"tls": map[string]any{"fingerprint": h.fingerprint()}, "domain": domainOf(node, rack),
	}}}
	bmc.SetAPIVersion(fettleAPI[0] + "/" + fettleAPI[1])
	bmc.SetKind("BMC")
	bmc.SetNamespace(metalNamespace)
	bmc.SetName(name)
	return []client.Object{
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: metalNamespace, Name: name},
			StringData: map[string]string{"username": bmcUser, "password": bmcPassword},
		},
		bmc,
	}
}

// domainOf returns the power strip of a node.
func domainOf(node, rack int) string {
	return fmt.Sprintf("rack-%d-strip-%d", rack, node/hostsOfDomain)
}

// reboot makes a node Ready as of now, in another boot.
func (k kubelets) reboot(ctx context.Context, i int) error {
	patch, err := anotherBoot(i, time.Now())
	if err != nil {
		return err
	}
	return k.patch(ctx, i, patch)
}

// anotherBoot returns the patch by which a kubelet reports that its node has just become ready after a boot.
func anotherBoot(i int, now time.Time) ([]byte, error) {
	patch, err := recovery(now)
	if err != nil {
		return nil, err
	}
	var status struct {
		Status map[string]any `json:"status"`
	}
	if err := json.Unmarshal(patch, &status); err != nil {
		return nil, fmt.Errorf("reading a kubelet's patch: %w", err)
	}
	status.Status["nodeInfo"] = map[string]any{"bootID": digest("boot %d at %d", i, now.UnixNano())[:36]}
	if patch, err = json.Marshal(status); err != nil {
		return nil, fmt.Errorf("encoding a kubelet's patch: %w", err)
	}
	return patch, nil
}

func closeHosts(hosts []*bmcHost) {
	var group sync.WaitGroup
	for _, h := range hosts {
		if h != nil {
			group.Go(func() { _ = h.bmc.Close() }) // the run is over
		}
	}
	group.Wait()
}
