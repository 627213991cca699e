package metricsauth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/fettle-io/fettle/internal/metricsauth"
)

// TestRememberedAnswers: 128 admitted requests and 128 refused ones are remembered, the latest of each.
func TestRememberedAnswers(t *testing.T) {
	for kind, status := range map[string]int{"admitted": http.StatusOK, "refused": http.StatusForbidden} {
		t.Run(kind, func(t *testing.T) {
			r := newReviewer()
			const most = 128
			token := func(i int) string { return "token-" + strconv.Itoa(i) }
			for i := range most + 1 {
				r.owners[token(i)] = map[int]string{http.StatusOK: "scraper", http.StatusForbidden: "stranger"}[status]
			}
			h := r.filter(t)
			reviews := func(i int) int {
				r.reviewed = nil
				if got := get(t, h, "Bearer "+token(i)); got != status {
					t.Fatalf("%s: answered %d, want %d", token(i), got, status)
				}
				return len(r.reviewed)
			}
			for i := range most {
				reviews(i)
			}
			if got := reviews(0); got != 0 {
				t.Errorf("the first of %d is reviewed anew: %d reviews", most, got)
			}
			reviews(most)
			if got := reviews(1); got != 2 {
				t.Errorf("after one more, the request that is longest ago was reviewed %d times, want 2", got)
			}
		})
	}
}

// reviews plays the reviews of tokens, and keeps the context of the last one.
type reviews struct {
	authenticationclient.TokenReviewInterface

	last context.Context
}

func (r *reviews) Create(ctx context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	r.last = ctx
	return review, nil
}

// TestReviewsEndInTime: a review has ten seconds, and leaves nothing behind.
func TestReviewsEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The clock of a bubble begins at this instant, and stands still while the test runs.
		begun, r := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC), &reviews{}
		h := metricsauth.NewFilter(metricsauth.Config{Tokens: r, Now: func() time.Time { return begun }}).Wrap(logr.Discard(), http.NotFoundHandler())
		if got := get(t, h, "Bearer any"); got != http.StatusUnauthorized {
			t.Fatalf("answered %d", got)
		}
		if end, limited := r.last.Deadline(); !limited || end.Sub(begun) != 10*time.Second {
			t.Errorf("limited: %t, after %v", limited, end.Sub(begun))
		}
		if r.last.Err() == nil {
			t.Error("the context of the review goes on")
		}
	})
}

// TestFailuresAreLogged: a review that fails is logged, and no other answer is.
func TestFailuresAreLogged(t *testing.T) {
	for name, tc := range map[string]struct {
		token, want string
		broken      bool
	}{
		"admitted":  {"good", "", false},
		"forbidden": {"poor", "", false},
		"unknown":   {"garbage", "", false},
		"failed":    {"good", "reviewing a token", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReviewer()
			if tc.broken {
				r.broken["tokenreviews"] = http.StatusInternalServerError
			}
			server := httptest.NewServer(r)
			t.Cleanup(server.Close)
			c, err := metricsauth.NewConfig(&rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, http.DefaultClient, func() time.Time { return r.now })
			if err != nil {
				t.Fatal(err)
			}
			var logged strings.Builder
			log := funcr.New(func(_, args string) { logged.WriteString(args) }, funcr.Options{})
			get(t, metricsauth.NewFilter(c).Wrap(log, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte("page"))
			})), "Bearer "+tc.token)
			if got := logged.String(); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("logged %q, want %q", got, tc.want)
			}
		})
	}
}

func TestUnusableConfiguration(t *testing.T) {
	_, err := metricsauth.NewConfig(&rest.Config{Host: "https://host:port/"}, http.DefaultClient, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "preparing reviews of tokens: ") {
		t.Errorf("have %v", err)
	}
}
