package main

import (
	"github.com/fettle-io/fettle/internal/cli"
	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/dialect/capi"
	"github.com/fettle-io/fettle/internal/servedapi"
)

const clusterAPIName = "cluster-api"

// clusterAPIDialect is Cluster API's MachineHealthCheck. newWorkloadClusters makes its client.
func clusterAPIDialect() dialect {
	return dialect{
		name:        clusterAPIName,
		commands:    cli.ClusterAPI{},
		addToScheme: clusterapi.AddToScheme,
		isSlim: func(obj any) bool {
			switch obj.(type) {
			case *clusterapi.Machine, *clusterapi.Cluster:
				return true
			}
			return false
		},
		isHealthCheck: capi.IsHealthCheck,
		parts:         func(r *components) []servedapi.Part { return []servedapi.Part{r.clusters.part()} },
	}
}
