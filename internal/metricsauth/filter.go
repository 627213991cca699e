package metricsauth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

const (
	// reviewTimeout bounds both reviews of one request together.
	reviewTimeout = 10 * time.Second
	// parallelReviews bounds the reviews that run at a time, since any host may send requests.
	parallelReviews = 4
	// maxToken is far longer than any token of Kubernetes.
	maxToken = 16 << 10
	// remembered bounds the stored results, of admitted requests and of refused ones.
	remembered = 128
	// A request that was admitted is admitted again for admitFor, even if the token is revoked meanwhile. A request
	// that was refused is reviewed again after refuseFor.
	admitFor  = time.Minute
	refuseFor = 10 * time.Second
)

// Config is the configuration of a Filter. All fields are required.
type Config struct {
	// Tokens and Rights create the API server's reviews.
	Tokens authenticationclient.TokenReviewInterface
	Rights authorizationclient.SubjectAccessReviewInterface
	Now    func() time.Time
}

// NewConfig returns a Config for the reviews of a cluster.
func NewConfig(config *rest.Config, client *http.Client, now func() time.Time) (Config, error) {
	tokens, err := authenticationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return Config{}, fmt.Errorf("preparing reviews of tokens: %w", err)
	}
	rights, err := authorizationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return Config{}, fmt.Errorf("preparing reviews of rights: %w", err)
	}
	return Config{Tokens: tokens.TokenReviews(), Rights: rights.SubjectAccessReviews(), Now: now}, nil
}

// Filter authorises the requests to a handler. It is safe for concurrent use.
type Filter struct {
	Config

	// admitted and refused are separate, so that refused requests can't displace the results of admitted ones.
	admitted, refused *cache.LRUExpireCache
	reviews           chan struct{}
}

// NewFilter returns a filter without results.
func NewFilter(c Config) *Filter {
	return &Filter{
		Config:   c,
		admitted: cache.NewLRUExpireCacheWithClock(remembered, clock(c.Now)),
		refused:  cache.NewLRUExpireCacheWithClock(remembered, clock(c.Now)),
		reviews:  make(chan struct{}, parallelReviews),
	}
}

type clock func() time.Time

// Now returns the time.
func (c clock) Now() time.Time { return c() }

// request is the key of a result. Tokens themselves are not stored.
type request struct {
	token      [sha256.Size]byte
	verb, path string
}

// refusal is the answer to a refused request.
type refusal struct {
	status int
	text   string
}

// Wrap returns a handler that passes authorised requests to the given one.
func (f *Filter) Wrap(log logr.Logger, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		no, err := f.review(r)
		if err != nil {
			log.Error(err, "a request for metrics could not be authenticated, so it was refused", "from", r.RemoteAddr)
		}
		if no == nil {
			handler.ServeHTTP(w, r)
			return
		}
		if no.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, no.text, no.status)
	})
}

// review returns nil for an admitted request. An error is for the log, and comes with a refusal.
func (f *Filter) review(r *http.Request) (*refusal, error) {
	token := bearerToken(r)
	if token == "" {
		return &refusal{http.StatusUnauthorized, "a bearer token of the cluster is required"}, nil
	}
	key := request{sha256.Sum256([]byte(token)), strings.ToLower(r.Method), r.URL.Path}
	if no, known := f.cached(key); known {
		return no, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	select {
	case f.reviews <- struct{}{}:
		defer func() { <-f.reviews }()
	case <-ctx.Done():
		return unreviewed(), nil
	}
	no, err := f.authorize(ctx, token, key)
	switch {
	case err != nil:
		return unreviewed(), err
	case no != nil:
		f.refused.Add(key, no, refuseFor)
	default:
		f.admitted.Add(key, true, admitFor)
	}
	return no, nil
}

func unreviewed() *refusal {
	return &refusal{http.StatusServiceUnavailable, "the API server could not authenticate you; try again later"}
}

func (f *Filter) cached(key request) (no *refusal, known bool) {
	if _, yes := f.admitted.Get(key); yes {
		return nil, true
	}
	if answer, known := f.refused.Get(key); known {
		no, known = answer.(*refusal)
		return no, known
	}
	return nil, false
}

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// authorize has the API server review a token, and then the right of its user.
func (f *Filter) authorize(ctx context.Context, token string, what request) (*refusal, error) {
	who, err := f.Tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("reviewing a token: %w", err)
	}
	if !who.Status.Authenticated {
		return &refusal{http.StatusUnauthorized, "the cluster does not know this bearer token"}, nil
	}
	user := who.Status.User
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	may, err := f.Rights.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: what.verb, Path: what.path},
	}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("reviewing the rights of %s: %w", user.Username, err)
	}
	if !may.Status.Allowed {
		return &refusal{http.StatusForbidden, fmt.Sprintf("%s may not %s %s; a ClusterRole with this nonResourceURL grants it", user.Username, what.verb, what.path)}, nil
	}
	return nil, nil
}

// bearerToken returns the token of a request, or nothing if it has none that could be valid.
func bearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || len(token) > maxToken {
		return ""
	}
	return token
}
