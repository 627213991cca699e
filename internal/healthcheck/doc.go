// Package healthcheck has what the APIs of health checks share: reading a health check from the API server itself, recording its
// status, its conditions and its events.
package healthcheck
