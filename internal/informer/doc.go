// Package informer starts informers of several kinds together, each once, and reports when all of them have synced.
package informer
