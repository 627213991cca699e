package powercycle

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/sanitize"
)

const (
	// reviewEvery is how often the rights are reviewed while they are there, and reviewSoon while they are not.
	reviewEvery = time.Minute
	reviewSoon  = 5 * time.Second
	// reviewTimeout bounds one review.
	reviewTimeout = 10 * time.Second
	mostFailure   = 300
)

// Access reports whether Fettle has the rights of config/power, without which no PowerRemediation gets far. It reviews them after a call of
// Problem. It is safe for concurrent use.
type Access struct {
	api       client.Client
	needs     []authorizationv1.ResourceAttributes
	change    func()
	log       logr.Logger
	requested chan struct{}

	mu      sync.Mutex
	known   bool
	problem string
}

// NewAccess returns an Access that knows nothing yet. Namespace is that of the BMCs. Change is called after the answer has changed.
func NewAccess(api client.Client, namespace string, change func(), log logr.Logger) *Access {
	return &Access{api: api, needs: neededRights(namespace), change: change, log: log, requested: make(chan struct{}, 1)}
}

// neededRights are the rights of config/power, as package rights has them for the generator.
func neededRights(namespace string) []authorizationv1.ResourceAttributes {
	return []authorizationv1.ResourceAttributes{
		{Verb: "get", Resource: "secrets", Namespace: namespace},
		{Verb: "delete", Resource: "nodes"},
		{Verb: "list", Resource: "pods"},
		{Verb: "list", Group: "storage.k8s.io", Resource: "volumeattachments"},
		{Verb: "get", Group: "metal3.io", Resource: "baremetalhosts"},
	}
}

// Problem says in a sentence which rights are missing, or nothing. It reports false while that is not known.
func (a *Access) Problem() (text string, known bool) {
	select {
	case a.requested <- struct{}{}:
	default:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.problem, a.known
}

// Start reviews the rights whenever Problem was called, until the context ends. While a right is missing, it goes on by itself.
func (a *Access) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.requested:
		}
		for !a.review(ctx) {
			if !pause(ctx, reviewSoon) {
				return nil
			}
		}
		if !pause(ctx, reviewEvery) {
			return nil
		}
	}
}

// NeedLeaderElection lets each replica review its rights when Problem was called.
func (*Access) NeedLeaderElection() bool { return false }

// pause reports whether the time has passed before the end of the context.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// review reviews the rights once, and reports whether all are there.
func (a *Access) review(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	var lacks []string
	for i := range a.needs {
		switch may, err := a.may(ctx, &a.needs[i]); {
		case err != nil:
			a.set("it is not known whether Fettle has the rights of config/power: "+sanitize.Failure(mostFailure, err), false)
			return false
		case !may:
			lacks = append(lacks, rightText(&a.needs[i]))
		}
	}
	if len(lacks) > 0 {
		a.set("Fettle may not "+strings.Join(lacks, ", ")+"; kubectl apply -k config/power grants that, or power.enabled=true in the chart", true)
		return false
	}
	a.set("", true)
	return true
}

// set sets the answer, and reports a change. Unless it replaces an earlier answer, it is for want of one.
func (a *Access) set(problem string, replaces bool) {
	a.mu.Lock()
	changed := !a.known || replaces && a.problem != problem // a text of texts
	if changed {
		a.known, a.problem = true, problem
	}
	a.mu.Unlock()
	if changed {
		a.log.Info("the rights to power hosts were reviewed", "problem", problem)
		a.change()
	}
}

// +kubebuilder:rbac:groups=authorization.k8s.io,resources=selfsubjectaccessreviews,verbs=create

func (a *Access) may(ctx context.Context, right *authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: right}}
	if err := a.api.Create(ctx, review); err != nil {
		return false, fmt.Errorf("reviewing the right to %s: %w", rightText(right), err)
	}
	return review.Status.Allowed, nil
}

func rightText(r *authorizationv1.ResourceAttributes) string {
	text := r.Verb + " " + r.Resource
	if r.Namespace != "" {
		text += " of namespace " + r.Namespace
	}
	return text
}
