// Package healthcheck has the code that the APIs of health checks share. It reads a health check
// from the API server, and records its status, conditions and events.
package healthcheck
