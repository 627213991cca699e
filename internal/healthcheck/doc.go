// Package healthcheck has the code that the APIs of health checks share: reading a health check from
// the API server, and recording its status, conditions and events.
package healthcheck
