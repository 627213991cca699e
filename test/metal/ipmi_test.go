package metal

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// byIPMI has the BMC of a node spoken to by IPMI, and waits until the power was read so.
func (p *pool) byIPMI(node string) {
	p.Helper()
	address := p.node(cluster.Context(p.T), node).Annotations[sandboxes+"ipmi-address"]
	bmc := &v1alpha1.BMC{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: node}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"address":%q,"tls":null}}`, address))
	if err := p.Patch(cluster.Context(p.T), bmc, patch); err != nil {
		p.Fatalf("changing the address of the BMC: %v", err)
	}
	changed := bmc.Generation
	p.Eventually(p.T, "first read by IPMI", func(ctx context.Context) error {
		if err := p.Get(ctx, client.ObjectKeyFromObject(bmc), bmc); err != nil {
			return err
		}
		for _, c := range bmc.Status.Conditions {
			if c.Type == "Reachable" && c.Status == metav1.ConditionTrue && c.ObservedGeneration >= changed {
				return nil
			}
		}
		return fmt.Errorf("its status is %+v", bmc.Status)
	})
}

// powerCycleByIPMI: the same as by Redfish.
func powerCycleByIPMI(p *pool) {
	p.byIPMI(p.first())
	powerCycle(p)
}
