package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// errRolledBack is why a process begins anew: the cluster has an earlier state than the process has seen, as after a restore
// of etcd from a backup. What the process remembers then is newer than what the API server has, and would win for ever.
var errRolledBack = errors.New("the cluster was set back to an earlier state")

// The bounds of a look at the current revision of a resource.
const (
	readTimeout = 30 * time.Second
	// maxReads is how often it is tried, after pauses that double from firstReadPause.
	maxReads       = 6
	firstReadPause = time.Second
	// maxListSize bounds what is read of a list of one object, of which the metadata comes first.
	maxListSize = 4 << 20
)

// rollbackDetector notices that the cluster was set back. API servers are restarted for that, so each watch begins again, from the
// revision that its cache has. An API server accepts a revision of the future without a word and sends nothing until that
// is reached, so the revision that the resource has now is read and compared.
type rollbackDetector struct {
	log logr.Logger
	// end ends the process, with the reason.
	end   context.CancelCauseFunc
	pause time.Duration

	mu sync.Mutex
	// watched are the paths of resources that have been watched before. A first watch follows a list, and needs no look.
	watched map[string]bool
}

func newRollbackDetector(log logr.Logger, end context.CancelCauseFunc) *rollbackDetector {
	return &rollbackDetector{log: log, end: end, pause: firstReadPause, watched: map[string]bool{}}
}

// wrap is a transport wrapper.
func (h *rollbackDetector) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil {
			if from, again := h.restartedFrom(r.URL); again {
				go h.compare(next, r, from)
			}
		}
		return response, err //nolint:wrapcheck // a transport passes on what it gets
	})
}

// restartedFrom returns the revision from which a resource is watched that has been watched before.
func (h *rollbackDetector) restartedFrom(u *url.URL) (uint64, bool) {
	if !strings.Contains(u.RawQuery, "watch=true") {
		return 0, false
	}
	h.mu.Lock()
	before := h.watched[u.Path]
	h.watched[u.Path] = true
	h.mu.Unlock()
	from, err := strconv.ParseUint(u.Query().Get("resourceVersion"), 10, 64)
	return from, before && err == nil && from > 0
}

// compare ends the process when the resource of a watch has an earlier revision than the watch begins from.
func (h *rollbackDetector) compare(next http.RoundTripper, watch *http.Request, from uint64) {
	pause := h.pause
	for range maxReads {
		now, err := currentRevision(next, watch)
		if err == nil {
			h.checkRevision(watch.URL.Path, from, now)
			return
		}
		if watch.Context().Err() != nil {
			return // it will begin again, or the process ends
		}
		time.Sleep(pause)
		pause *= 2
	}
}

func (h *rollbackDetector) checkRevision(path string, from, now uint64) {
	if now >= from {
		return
	}
	err := fmt.Errorf("%w: the API server has revision %d of %s, and this process has seen revision %d", errRolledBack, now, resourceOf(path), from)
	h.log.Error(err, "this process forgets all that it has seen and begins anew; nothing is to be done")
	h.end(err)
}

// currentRevision returns the revision that a resource has now. A list that names no revision is never served from an old cache.
func currentRevision(next http.RoundTripper, watch *http.Request) (uint64, error) {
	ctx, cancel := context.WithTimeout(watch.Context(), readTimeout)
	defer cancel()
	r := watch.Clone(ctx)
	r.URL.RawQuery = "limit=1"
	r.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json")
	response, err := next.RoundTrip(r)
	if err != nil {
		return 0, err //nolint:wrapcheck // it is tried again, and told nowhere
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, errors.New(response.Status)
	}
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxListSize)).Decode(&list); err != nil {
		return 0, fmt.Errorf("reading a list: %w", err)
	}
	revision, err := strconv.ParseUint(list.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the revision of a list: %w", err)
	}
	return revision, nil
}
