package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/fettle-io/fettle/internal/cli"
	"github.com/fettle-io/fettle/internal/engine"
	"github.com/fettle-io/fettle/internal/servedapi"
)

// dialects returns the APIs of health checks that Fettle knows, in the order of the flag. A new
// dialect has its row here, and a file beside this one.
func dialects() []dialect {
	return []dialect{openshiftDialect(), clusterAPIDialect(), nhcDialect()}
}

// dialect is one API of health checks, for the wiring. Functions that it doesn't need are nil.
type dialect struct {
	// name is its name in flags.
	name string
	// commands is its part of the commands for users.
	commands cli.Dialect
	// addToScheme adds the Go types of the kinds that it watches.
	addToScheme func(*runtime.Scheme) error
	// isSlim reports whether a watched object has one of these types, which have no fields that Fettle
	// doesn't read.
	isSlim func(obj any) bool
	// isHealthCheck reports whether a watched object is one of its health checks.
	isHealthCheck func(*unstructured.Unstructured) bool
	// wire makes its client, also if a flag turns the dialect off: other components read machines.
	wire func(*components, controllerMetrics, controllerOptions) error
	// parts returns the parts that start once the cluster serves their kinds.
	parts func(*components) []servedapi.Part
	// home returns its client if it judges the cluster that Fettle runs in, and not workload clusters.
	home func(*components) homeClient
	// remedies returns the remedies of its own for that cluster, by name.
	remedies func(*components) map[string]engine.Remedy
}

// homeClient is the client of a dialect that judges the cluster that Fettle runs in.
type homeClient interface {
	engine.Dialect
	homeDialect
}

// dialectNames returns the names of all dialects.
func dialectNames() []string {
	var names []string
	for _, d := range dialects() {
		names = append(names, d.name)
	}
	return names
}

// serves reports whether Fettle follows the health checks of a dialect. It doesn't watch others.
func (o *controllerOptions) serves(dialect string) bool { return slices.Contains(o.dialects, dialect) }

// servedDialects returns the dialects that no flag turns off.
func (o *controllerOptions) servedDialects() []dialect {
	return slices.DeleteFunc(dialects(), func(d dialect) bool { return !o.serves(d.name) })
}

// homeClients returns the clients of the served dialects that judge the cluster that Fettle runs in.
func (r *components) homeClients(o controllerOptions) []homeClient {
	var clients []homeClient
	for _, d := range o.servedDialects() {
		if d.home != nil {
			clients = append(clients, d.home(r))
		}
	}
	return clients
}

// remediesOfDialects returns the remedies that dialects have of their own.
func (r *components) remediesOfDialects() map[string]engine.Remedy {
	all := map[string]engine.Remedy{}
	for _, d := range dialects() {
		if d.remedies != nil {
			maps.Copy(all, d.remedies(r))
		}
	}
	return all
}

// wireDialects makes the clients of all dialects.
func (r *components) wireDialects(m controllerMetrics, o controllerOptions) error {
	for _, d := range dialects() {
		if d.wire == nil {
			continue
		}
		if err := d.wire(r, m, o); err != nil {
			return err
		}
	}
	return nil
}

// registered returns new metrics, which are served. It returns nil if no metrics are.
func registered[M prometheus.Collector](o controllerOptions, create func() M) (M, error) {
	var m M
	if o.metricsAddress == off {
		return m, nil
	}
	m = create()
	if err := metrics.Registry.Register(m); err != nil {
		return m, fmt.Errorf("preparing metrics: %w", err)
	}
	return m, nil
}
