package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Fettle's histograms of its own work, in the order of the work.
var histogramNames = [...]string{
	"fettle_detect_seconds", "fettle_decide_seconds", "fettle_queue_seconds", "fettle_act_seconds", "fettle_recover_seconds",
	"fettle_decision_duration_seconds",
}

// endpoint is the address of Fettle's metrics, for clients with the right to read them.
type endpoint struct {
	address string
	token   string
	client  *http.Client
}

// newEndpoint makes a service account that may read metrics, and finds an address for them.
func newEndpoint(ctx context.Context, admin *rest.Config) (*endpoint, error) {
	c, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	meta := metav1.ObjectMeta{Name: "fettle-bench", Namespace: "default"}
	_, madeAccount := c.CoreV1().ServiceAccounts(meta.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	_, madeRole := c.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: meta.Name}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}},
	}, metav1.CreateOptions{})
	_, bound := c.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: meta.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: meta.Name}},
	}, metav1.CreateOptions{})
	if err := errors.Join(madeAccount, madeRole, bound); err != nil {
		return nil, fmt.Errorf("making a reader of metrics: %w", err)
	}
	token, err := c.CoreV1().ServiceAccounts(meta.Namespace).CreateToken(ctx, meta.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for a token of the reader of metrics: %w", err)
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	//nolint:gosec // Fettle has just made the certificate for itself, on loopback
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	return &endpoint{
		address: address, token: token.Status.Token,
		client: &http.Client{Timeout: 10 * time.Second, Transport: transport},
	}, nil
}

// freeAddress returns an address on loopback for a server that is started soon. Its IP address is a random one, since other processes connect
// from 127.0.0.1 and listen there: they would take a port that was free a moment ago.
func freeAddress(ctx context.Context) (string, error) {
	random := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)) //nolint:gosec // nothing secret
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", random+":0")
	if err != nil {
		listener, err = config.Listen(ctx, "tcp", "127.0.0.1:0") // not all systems have the other addresses
	}
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	if err := listener.Close(); err != nil {
		return "", fmt.Errorf("freeing a port: %w", err)
	}
	return listener.Addr().String(), nil
}

// scrape reads the histograms, and leaves out missing ones.
func (e *endpoint) scrape(ctx context.Context) (map[string]histogram, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+e.address+"/metrics", http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("reading Fettle's metrics: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+e.token)
	response, err := e.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading Fettle's metrics: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading Fettle's metrics: %s", response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading Fettle's metrics: %w", err)
	}
	found := map[string]histogram{}
	for _, name := range histogramNames {
		if family := families[name]; family != nil {
			found[name] = histogramOf(family)
		}
	}
	return found, nil
}

// histogram counts observations up to each bound.
type histogram struct {
	count  uint64
	sum    float64
	bounds []float64
	upTo   []uint64
}

// histogramOf adds up the series of a family, which have the same bounds.
func histogramOf(family *dto.MetricFamily) histogram {
	var h histogram
	for _, m := range family.GetMetric() {
		series := m.GetHistogram()
		h.count += series.GetSampleCount()
		h.sum += series.GetSampleSum()
		for i, b := range series.GetBucket() {
			if i == len(h.bounds) {
				h.bounds, h.upTo = append(h.bounds, b.GetUpperBound()), append(h.upTo, 0)
			}
			h.upTo[i] += b.GetCumulativeCount()
		}
	}
	return h
}

// since returns the observations after an earlier reading.
func (h histogram) since(earlier histogram) histogram {
	d := histogram{count: h.count - earlier.count, sum: h.sum - earlier.sum, bounds: h.bounds, upTo: slices.Clone(h.upTo)}
	for i := range earlier.upTo {
		d.upTo[i] -= earlier.upTo[i]
	}
	return d
}

// quantile estimates the q-quantile as Prometheus does: evenly within a bucket, and the highest bound for values beyond
// it.
func (h histogram) quantile(q float64) float64 {
	rank := q * float64(h.count)
	lower, below := 0.0, uint64(0)
	for i, bound := range h.bounds {
		if math.IsInf(bound, 1) {
			break
		}
		if float64(h.upTo[i]) >= rank && h.upTo[i] > below {
			return lower + (bound-lower)*(rank-float64(below))/float64(h.upTo[i]-below)
		}
		lower, below = bound, h.upTo[i]
	}
	return lower
}

// summary is the printed part of a histogram.
type summary struct {
	Name   string  `json:"name"`
	Count  uint64  `json:"count"`
	Mean   seconds `json:"mean"`
	Median seconds `json:"medianEstimate"`
	P99    seconds `json:"p99Estimate"`
}

func summaryOf(name string, h histogram) summary {
	s := summary{Name: name, Count: h.count}
	if h.count > 0 {
		s.Mean, s.Median, s.P99 = inSeconds(h.sum/float64(h.count)), inSeconds(h.quantile(0.5)), inSeconds(h.quantile(0.99))
	}
	return s
}

func inSeconds(s float64) seconds { return seconds(s * float64(time.Second)) }
