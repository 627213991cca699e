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

// errRolledBack restarts a process that has seen newer state than the cluster has, as after a
// restore of etcd from a backup. The caches are newer than the API server then, and would never be
// corrected.
var errRolledBack = errors.New("the cluster was restored to an earlier state")

// The bounds of the calls that read the current revision of a resource.
const (
	readTimeout = 30 * time.Second
	// maxReads bounds the attempts. The pauses between them double, from firstReadPause.
	maxReads       = 6
	firstReadPause = time.Second
	// maxListSize bounds the answer to a list of one object. The metadata of the list comes first.
	maxListSize = 4 << 20
)

// rollbackDetector detects that the cluster was restored to an earlier state. A restore restarts
// the API servers, so each watch starts again at the revision of its cache. An API server accepts a
// revision that it hasn't reached yet, and sends nothing until then. So the detector compares that
// revision with the current one of the resource.
type rollbackDetector struct {
	log logr.Logger
	// end shuts the process down with a reason.
	end   context.CancelCauseFunc
	pause time.Duration

	mu sync.Mutex
	// watched has the paths of resources that were watched before. A first watch follows a list,
	// and needs no comparison.
	watched map[string]bool
}

func newRollbackDetector(log logr.Logger, end context.CancelCauseFunc) *rollbackDetector {
	return &rollbackDetector{log: log, end: end, pause: firstReadPause, watched: map[string]bool{}}
}

// wrap wraps a transport.
func (h *rollbackDetector) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil {
			if from, again := h.restartedFrom(r.URL); again {
				go h.compare(next, r, from)
			}
		}
		return response, err //nolint:wrapcheck // a transport returns errors unchanged
	})
}

// restartedFrom returns the revision at which a watch starts again. It returns false for all other
// requests.
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

// compare shuts the process down if the resource of a watch has an earlier revision than the watch.
func (h *rollbackDetector) compare(next http.RoundTripper, watch *http.Request, from uint64) {
	pause := h.pause
	for range maxReads {
		now, err := currentRevision(next, watch)
		if err == nil {
			h.checkRevision(watch.URL.Path, from, now)
			return
		}
		if watch.Context().Err() != nil {
			return // the watch starts again, or the process shuts down
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
	h.log.Error(err, "this process restarts without its caches; no action is needed")
	h.end(err)
}

// currentRevision returns the current revision of a resource. The API server never serves a list
// without a revision from an old cache.
func currentRevision(next http.RoundTripper, watch *http.Request) (uint64, error) {
	ctx, cancel := context.WithTimeout(watch.Context(), readTimeout)
	defer cancel()
	r := watch.Clone(ctx)
	r.URL.RawQuery = "limit=1"
	r.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json")
	response, err := next.RoundTrip(r)
	if err != nil {
		return 0, err //nolint:wrapcheck // it is retried, and not reported
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
