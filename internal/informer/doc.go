// Package informer starts informers of several kinds together, each once, and reports when all of them have synced. It has an
// informer that calls its handlers without queues, for kinds that change often.
package informer
