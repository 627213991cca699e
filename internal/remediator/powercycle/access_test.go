package powercycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reviewer answers reviews of rights, and counts them.
type reviewer struct {
	client.Client

	mu       sync.Mutex
	denied   []string
	err      error
	reviewed []string
	// hangs has no review answered.
	hangs bool
}

func (r *reviewer) Create(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
	review, is := o.(*authorizationv1.SelfSubjectAccessReview)
	if !is {
		return fmt.Errorf("%T is no review", o)
	}
	if r.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	right := review.Spec.ResourceAttributes
	text := strings.TrimSpace(strings.Join([]string{right.Namespace, right.Verb, right.Group, right.Resource}, " "))
	r.reviewed = append(r.reviewed, text)
	review.Status.Allowed = !slices.Contains(r.denied, text)
	return r.err
}

func (r *reviewer) answers(err error, denied ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.denied, r.reviewed = err, denied, nil
}

func (r *reviewer) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.reviewed)
}

// TestAccess: rights are reviewed after a call of Problem. The missing ones are named, until an administrator grants them.
func TestAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, changes := &reviewer{}, 0
		a := NewAccess(api, "bmcs", func() { changes++ }, logr.Discard())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- a.Start(ctx) }()
		wants := func(sentence, problem string, known bool, reviews, changed int) {
			t.Helper()
			synctest.Wait()
			got, is := a.Problem()
			synctest.Wait()
			if got != problem || is != known || api.count() != reviews || changes != changed {
				t.Errorf("%s: %q (known: %t) after %d reviews and %d changes, want %q (%t) after %d and %d", sentence, got, is, api.count(), changes, problem, known, reviews, changed)
			}
		}
		time.Sleep(time.Hour) //nolint:forbidigo // time in a bubble passes at once
		synctest.Wait()
		if api.count() != 0 {
			t.Errorf("without a question there are %d reviews", api.count())
		}
		api.answers(errors.New("the API server is down"))
		wants("the first question", "", false, 1, 1)
		wants("a failure", "it is not known whether Fettle has the rights of config/power: reviewing the right to get secrets of namespace bmcs: the API server is down", true, 1, 1)
		api.answers(nil, "delete  nodes", "bmcs get  secrets")
		time.Sleep(reviewSoon) //nolint:forbidigo // time in a bubble passes at once
		const lacks = "Fettle may not get secrets of namespace bmcs, delete nodes; kubectl apply -k config/power grants that, or power.enabled=true in the chart"
		wants("the answer", lacks, true, 5, 2)
		api.answers(errors.New("the API server is down"))
		time.Sleep(reviewSoon) //nolint:forbidigo // time in a bubble passes at once
		wants("a later failure changes no answer", lacks, true, 1, 2)
		api.answers(nil)
		time.Sleep(reviewSoon) //nolint:forbidigo // time in a bubble passes at once
		wants("all are granted", "", true, 5, 3)
		time.Sleep(reviewEvery - time.Second) //nolint:forbidigo // time in a bubble passes at once
		wants("it was reviewed lately", "", true, 5, 3)
		time.Sleep(time.Second) //nolint:forbidigo // time in a bubble passes at once
		wants("it is reviewed again", "", true, 10, 3)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
		if a.NeedLeaderElection() {
			t.Error("it waits for the lead")
		}
	})
}

// reviewed returns what one review of the rights ends with.
func reviewed(t *testing.T, api *reviewer) (problem string, all bool, took time.Duration) {
	t.Helper()
	a, begun := NewAccess(api, "bmcs", func() {}, logr.Discard()), time.Now() //nolint:forbidigo // the clock of the bubble
	all = a.review(t.Context())
	problem, _ = a.Problem()
	return problem, all, time.Since(begun) //nolint:forbidigo // the same
}

// TestMissingRights are named in the order in which they are needed, also where it is one.
func TestMissingRights(t *testing.T) {
	const how = "; kubectl apply -k config/power grants that, or power.enabled=true in the chart"
	all := []string{"bmcs get  secrets", "delete  nodes", "list  pods", "list storage.k8s.io volumeattachments", "get metal3.io baremetalhosts"}
	for want, denied := range map[string][]string{
		"Fettle may not list pods": {"list  pods"},
		"Fettle may not get secrets of namespace bmcs, delete nodes, list pods, list volumeattachments, get baremetalhosts": all,
	} {
		problem, granted, _ := reviewed(t, &reviewer{denied: denied})
		if problem != want+how || granted {
			t.Errorf("without %v it says %q, all granted: %t", denied, problem, granted)
		}
	}
}

// TestAReviewIsBounded: an API server that does not answer is given up after a while, and its error is shortened.
func TestAReviewIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, all, took := reviewed(t, &reviewer{hangs: true}); all || took != reviewTimeout {
			t.Errorf("after %v, all are granted: %t", took, all)
		}
	})
	const prefix = "it is not known whether Fettle has the rights of config/power: "
	if problem, _, _ := reviewed(t, &reviewer{err: errors.New(strings.Repeat("x", 2*mostFailure))}); len(problem) != len(prefix)+mostFailure {
		t.Errorf("it says %d bytes: %q", len(problem), problem)
	}
}

// TestAccessEnds while it pauses before its next review.
func TestAccessEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &reviewer{denied: []string{"list  pods"}}
		a := NewAccess(api, "bmcs", func() {}, logr.Discard())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- a.Start(ctx) }()
		a.Problem()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil || api.count() != 5 {
			t.Errorf("it ended with %v after %d reviews", err, api.count())
		}
	})
}

// TestNeededRightsAreGranted: they are those of package rights, from which config/power is generated.
func TestNeededRightsAreGranted(t *testing.T) {
	text, err := os.ReadFile("rights/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	granted := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		marker, is := strings.CutPrefix(strings.TrimSpace(line), "// +kubebuilder:rbac:")
		if !is {
			continue
		}
		values := map[string]string{}
		for pair := range strings.SplitSeq(marker, ",") {
			key, value, _ := strings.Cut(pair, "=")
			values[key] = strings.Trim(value, `"`)
		}
		granted[values["verbs"]+" "+values["groups"]+" "+values["resources"]+" "+values["namespace"]] = true
	}
	needs := neededRights("fettle-system")
	for _, r := range needs {
		if !granted[r.Verb+" "+r.Group+" "+r.Resource+" "+r.Namespace] {
			t.Errorf("%+v is not granted: %v", r, granted)
		}
	}
	if len(needs) != len(granted) {
		t.Errorf("%d rights are needed, and %d granted", len(needs), len(granted))
	}
}
