package metricsauth_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/fettle-io/fettle/internal/metricsauth"
)

// reviewer plays the API server: it knows tokens by their owner and has rights by user.
type reviewer struct {
	mu       sync.Mutex
	now      time.Time
	owners   map[string]string
	rights   map[string]bool
	broken   map[string]int
	hanging  chan struct{}
	reviewed []string
	spec     authorizationv1.SubjectAccessReviewSpec
}

func newReviewer() *reviewer {
	return &reviewer{
		now:    time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC),
		owners: map[string]string{"good": "scraper", "poor": "stranger"},
		rights: map[string]bool{"scraper": true},
		broken: map[string]int{},
	}
}

func (r *reviewer) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	kind := request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:]
	if r.hanging != nil {
		<-r.hanging
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reviewed = append(r.reviewed, kind)
	if status := r.broken[kind]; status != 0 {
		http.Error(w, "broken", status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if kind == "tokenreviews" {
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(request.Body).Decode(&review)
		name, known := r.owners[review.Spec.Token]
		review.Status.Authenticated = known
		review.Status.User = authenticationv1.UserInfo{
			Username: name, UID: name + "-uid", Groups: []string{"scrapers"}, Extra: map[string]authenticationv1.ExtraValue{"pod": {"p"}},
		}
		reply(w, review)
		return
	}
	var review authorizationv1.SubjectAccessReview
	_ = json.NewDecoder(request.Body).Decode(&review)
	r.spec = review.Spec
	review.Status.Allowed = r.rights[review.Spec.User]
	reply(w, review)
}

func reply(w http.ResponseWriter, review any) {
	if err := json.NewEncoder(w).Encode(review); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// filter returns a page behind the filter. The filter sends its reviews to r.
func (r *reviewer) filter(t *testing.T) http.Handler {
	t.Helper()
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return r.filterOf(t, server.URL)
}

func (r *reviewer) filterOf(t *testing.T, address string) http.Handler {
	t.Helper()
	c, err := metricsauth.NewConfig(&rest.Config{Host: address, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, http.DefaultClient, func() time.Time { return r.now })
	if err != nil {
		t.Fatalf("preparing reviews: %v", err)
	}
	return metricsauth.NewFilter(c).Wrap(logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("page"))
	}))
}

// get returns the status of a request, and fails the test if a refused request gets the page.
func get(t *testing.T, h http.Handler, authorization string) int {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request)
	if shown := w.Body.String() == "page"; shown != (w.Code == http.StatusOK) {
		t.Errorf("answered %d with %q", w.Code, w.Body.String())
	}
	if w.Code == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") != "Bearer" {
		t.Error("the answer to a request without a token does not ask for one")
	}
	return w.Code
}

func TestWhoIsLetIn(t *testing.T) {
	cases := map[string]struct {
		authorization string
		want          int
		reviewed      []string
	}{
		"a token with the right":      {"Bearer good", http.StatusOK, []string{"tokenreviews", "subjectaccessreviews"}},
		"a token without the right":   {"Bearer poor", http.StatusForbidden, []string{"tokenreviews", "subjectaccessreviews"}},
		"an unknown token":            {"Bearer garbage", http.StatusUnauthorized, []string{"tokenreviews"}},
		"a scheme in small letters":   {"bearer good", http.StatusOK, []string{"tokenreviews", "subjectaccessreviews"}},
		"no credentials":              {"", http.StatusUnauthorized, nil},
		"a scheme without a token":    {"Bearer ", http.StatusUnauthorized, nil},
		"a token without a scheme":    {"good", http.StatusUnauthorized, nil},
		"a password":                  {"Basic Z29vZDpnb29k", http.StatusUnauthorized, nil},
		"a token that is a megabyte":  {"Bearer " + strings.Repeat("x", 1<<20), http.StatusUnauthorized, nil},
		"a token as long as may be":   {"Bearer " + strings.Repeat("x", 16<<10), http.StatusUnauthorized, []string{"tokenreviews"}},
		"a token that is longer":      {"Bearer " + strings.Repeat("x", 16<<10+1), http.StatusUnauthorized, nil},
		"a token with blanks around":  {"Bearer  good ", http.StatusOK, []string{"tokenreviews", "subjectaccessreviews"}},
		"a token with a blank in it":  {"Bearer good token", http.StatusUnauthorized, []string{"tokenreviews"}},
		"a token that is not letters": {"Bearer \xff\xfe", http.StatusUnauthorized, []string{"tokenreviews"}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			r := newReviewer()
			if got := get(t, r.filter(t), tc.authorization); got != tc.want {
				t.Errorf("answered %d, want %d", got, tc.want)
			}
			if diff := cmp.Diff(tc.reviewed, r.reviewed); diff != "" {
				t.Errorf("reviews (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRightsAreThoseOfTheTokensOwner(t *testing.T) {
	r := newReviewer()
	get(t, r.filter(t), "Bearer good")
	want := authorizationv1.SubjectAccessReviewSpec{
		User: "scraper", UID: "scraper-uid", Groups: []string{"scrapers"}, Extra: map[string]authorizationv1.ExtraValue{"pod": {"p"}},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/metrics"},
	}
	if diff := cmp.Diff(want, r.spec); diff != "" {
		t.Errorf("what is reviewed (-want +got):\n%s", diff)
	}
}

// TestAnswersAreRemembered: a request that was admitted is not reviewed for a minute, and a refused one for ten
// seconds.
func TestAnswersAreRemembered(t *testing.T) {
	r := newReviewer()
	h := r.filter(t)
	wants := func(sentence, token string, status, reviews int) {
		t.Helper()
		r.reviewed = nil
		if got := get(t, h, "Bearer "+token); got != status || len(r.reviewed) != reviews {
			t.Errorf("%s: answered %d after %d reviews, want %d after %d", sentence, got, len(r.reviewed), status, reviews)
		}
	}
	wants("the first time", "good", http.StatusOK, 2)
	wants("the first time", "poor", http.StatusForbidden, 2)
	wants("the first time", "late", http.StatusUnauthorized, 1)
	r.owners = map[string]string{"poor": "scraper", "late": "scraper"}
	r.now = r.now.Add(9 * time.Second)
	wants("revoked a moment ago", "good", http.StatusOK, 0)
	wants("granted a moment ago", "poor", http.StatusForbidden, 0)
	wants("made a moment ago", "late", http.StatusUnauthorized, 0)
	r.now = r.now.Add(time.Second + time.Nanosecond)
	wants("granted", "poor", http.StatusOK, 2)
	wants("made", "late", http.StatusOK, 2)
	r.now = r.now.Add(50 * time.Second)
	wants("revoked", "good", http.StatusUnauthorized, 1)
}

// TestStrangersDisplaceNoUser: many guessed tokens lead to no new review of an admitted one.
func TestStrangersDisplaceNoUser(t *testing.T) {
	r := newReviewer()
	h := r.filter(t)
	get(t, h, "Bearer good")
	for i := range 300 {
		get(t, h, "Bearer guess"+strings.Repeat("x", i))
	}
	r.reviewed = nil
	if got := get(t, h, "Bearer good"); got != http.StatusOK || len(r.reviewed) != 0 {
		t.Errorf("answered %d after the reviews %v", got, r.reviewed)
	}
}

func TestWhatCanNotBeReviewedIsRefused(t *testing.T) {
	for _, kind := range []string{"tokenreviews", "subjectaccessreviews"} {
		for _, status := range []int{http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError} {
			r := newReviewer()
			r.broken[kind] = status
			h := r.filter(t)
			if got := get(t, h, "Bearer good"); got != http.StatusServiceUnavailable {
				t.Errorf("%s answered by %d: the page answers %d", kind, status, got)
			}
			delete(r.broken, kind)
			if got := get(t, h, "Bearer good"); got != http.StatusOK {
				t.Errorf("a failure of %s is remembered as an answer: %d", kind, got)
			}
		}
	}
}

func TestNoUserIsAdmittedWhileTheAPIServerIsAway(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	if got := get(t, newReviewer().filterOf(t, gone.URL), "Bearer good"); got != http.StatusServiceUnavailable {
		t.Errorf("answered %d", got)
	}
}

// TestReviewsHaveATimeLimit: a review that hangs ends with the context of the request, at the latest.
func TestReviewsHaveATimeLimit(t *testing.T) {
	r := newReviewer()
	r.hanging = make(chan struct{})
	h := r.filter(t)
	t.Cleanup(func() { close(r.hanging) })
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan int)
	const scrapes = 6 // more than reviews run at a time
	for range scrapes {
		go func() {
			request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", http.NoBody)
			request.Header.Set("Authorization", "Bearer good")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, request)
			answers <- w.Code
		}()
	}
	cancel()
	for range scrapes {
		if got := <-answers; got != http.StatusServiceUnavailable {
			t.Errorf("answered %d", got)
		}
	}
}
