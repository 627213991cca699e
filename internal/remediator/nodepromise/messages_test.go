package nodepromise

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/internal/fencing"
)

// TestWaitMessages: each reason about a promise has a text of its own, which names the node. Other reasons have none.
func TestWaitMessages(t *testing.T) {
	p := &Promise{Node: "node-a", Facts: fencing.Promise{Expires: noon.Add(time.Hour)}, Failure: errors.New("no answer")}
	seen := map[string]bool{}
	for _, why := range []fencing.Reason{
		fencing.PromiseNotRead, fencing.PromiseStands, fencing.PromiseNotTimed, fencing.WitnessesNotAcknowledged, fencing.PromiseOfOther,
		fencing.PromiseOfOtherBoot, fencing.NothingPromised,
	} {
		text := p.WaitMessage(fencing.Step{Kind: fencing.Wait, Reason: why, Until: noon.Add(time.Hour)})
		if seen[text] || !strings.Contains(text, "node-a") {
			t.Errorf("%s says %q", why, text)
		}
		seen[text] = true
	}
	for _, why := range []fencing.Reason{"", fencing.PowerNotOff, fencing.NodeReady} {
		if text := p.WaitMessage(fencing.Step{Kind: fencing.Wait, Reason: why}); text != "" {
			t.Errorf("%s says %q", why, text)
		}
	}
}

// TestWhyFailed: a message names a right only where it is missing.
func TestWhyFailed(t *testing.T) {
	for want, err := range map[string]error{
		"(the API server gave no answer); it is tried again":                                                                       errors.New("dial tcp 10.0.0.1:443: refused"),
		"(Forbidden); it is tried again, and the manifests of this version with kubectl apply -k config/selffence grant the right": apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "node-a", errors.New("no")),
		"(TooManyRequests); it is tried again":                                                                                     apierrors.NewTooManyRequestsError("wait"),
	} {
		if got := WhyFailed(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}
