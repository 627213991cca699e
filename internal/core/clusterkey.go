package core

// ClusterKey names one cluster: a workload cluster by its Cluster of Cluster API, or the cluster in which Fettle runs by
// the zero ClusterKey.
type ClusterKey struct{ Namespace, Name string }
