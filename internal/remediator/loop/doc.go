// Package loop runs a remediator: it waits until all kinds are watched and have synced, and has workers take keys from queues. A key that
// failed is tried again after a pause, which doubles. Remediators of all kinds share it. It knows nothing of remediations.
package loop
