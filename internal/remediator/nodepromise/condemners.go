package nodepromise

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// pageSize and maxPages bound the list of remediations.
const (
	pageSize = 500
	maxPages = 100
)

// exists reports whether a remediation with a UID exists. The promise that a remediation without a trace has revoked would stay so.
func (a *Promises) exists(ctx context.Context, uid types.UID) (bool, error) {
	exist, complete, err := a.Condemners(ctx)
	return exist[uid] || !complete, err // unknown counts as existing
}

// +kubebuilder:rbac:groups=fettle.io,resources=selffenceremediations,verbs=list

// Condemners returns the UIDs of all remediations that may condemn nodes, as far as they could be listed, and whether these are all.
func (a *Promises) Condemners(ctx context.Context) (exist map[types.UID]bool, complete bool, err error) {
	exist = map[types.UID]bool{}
	var page v1alpha1.SelfFenceRemediationList
	for range maxPages {
		if err := a.api.List(ctx, &page, client.Limit(pageSize), client.Continue(page.Continue)); err != nil {
			return nil, false, fmt.Errorf("listing the SelfFenceRemediations: %w", err)
		}
		for i := range page.Items {
			exist[page.Items[i].UID] = true
		}
		if page.Continue == "" {
			return exist, true, nil
		}
	}
	return exist, false, nil
}
