// Package informer begins to watch several kinds together, each once, and tells when all that there is has been taken in.
package informer
