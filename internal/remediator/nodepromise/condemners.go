package nodepromise

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
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

// +kubebuilder:rbac:groups=fettle.io,resources=selffenceremediations;powerremediations,verbs=list

// Condemners returns the UIDs of all remediations that may condemn nodes, as far as they could be listed, and whether these are all.
func (a *Promises) Condemners(ctx context.Context) (exist map[types.UID]bool, complete bool, err error) {
	exist = map[types.UID]bool{}
	var self v1alpha1.SelfFenceRemediationList
	all, err := a.list(ctx, &self, func() {
		for i := range self.Items {
			exist[self.Items[i].UID] = true
		}
	})
	if !all {
		return exist, false, err
	}
	var power v1alpha1.PowerRemediationList
	all, err = a.list(ctx, &power, func() {
		for i := range power.Items {
			exist[power.Items[i].UID] = true
		}
	})
	return exist, all, err
}

// list lists the remediations of a kind in pages, and reports whether these are all. After a failure they are not. There are none of a kind that is not served.
func (a *Promises) list(ctx context.Context, page client.ObjectList, each func()) (bool, error) {
	for range maxPages {
		err := a.api.List(ctx, page, client.Limit(pageSize), client.Continue(page.GetContinue()))
		switch {
		case !fencednode.MayExist(err):
			return true, nil
		case err != nil:
			return false, fmt.Errorf("listing remediations: %w", err)
		}
		each()
		if page.GetContinue() == "" {
			return true, nil
		}
	}
	return false, nil
}
