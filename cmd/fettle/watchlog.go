package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	toolscache "k8s.io/client-go/tools/cache"
)

// watchLogger logs one line for each kind whose watch breaks, and one when it works again.
// client-go would log each attempt. It wraps the transport of all requests and looks at watches
// only.
type watchLogger struct {
	log logr.Logger

	mu     sync.Mutex
	broken map[string]bool
}

func newWatchLogger(log logr.Logger) *watchLogger {
	return &watchLogger{log: log, broken: map[string]bool{}}
}

// wrap wraps a transport.
func (w *watchLogger) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if strings.Contains(r.URL.RawQuery, "watch=true") && r.Context().Err() == nil {
			w.observe(resourceOf(r.URL.Path), response, err)
		}
		return response, err //nolint:wrapcheck // a transport returns errors unchanged
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends a request.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (w *watchLogger) observe(resource string, response *http.Response, err error) {
	switch {
	case err != nil:
		w.logBroken(resource, err)
	case response.StatusCode == http.StatusOK:
		w.logRestored(resource)
	case response.StatusCode == http.StatusGone, response.StatusCode == http.StatusUnprocessableEntity:
		// The informer lists the resource again at once.
	default:
		w.logBroken(resource, refusalOf(response))
	}
}

func (w *watchLogger) logBroken(resource string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.broken[resource] {
		w.broken[resource] = true
		w.log.Info("watch broke; it is retried until it works, and its cache may be old meanwhile", "resource", resource, "why", err.Error())
	}
}

func (w *watchLogger) logRestored(resource string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken[resource] {
		delete(w.broken, resource)
		w.log.Info("watch works again", "resource", resource)
	}
}

// handleError replaces client-go's handler for errors that wrap doesn't see: answers that can't be
// read.
func (w *watchLogger) handleError(_ context.Context, r *toolscache.Reflector, err error) {
	var refused apierrors.APIStatus
	var sending *url.Error
	log := w.log.WithValues("kind", r.TypeDescription())
	if errors.As(err, &refused) || errors.As(err, &sending) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		log.V(1).Info("watch ended", "why", err.Error())
		return
	}
	log.Error(err, "objects of a watch can't be read; the watch is retried")
}

// resourceOf returns the resource of a path in the form of a CustomResourceDefinition's name.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) > 3 && parts[0] == "apis" {
		return parts[len(parts)-1] + "." + parts[1]
	}
	return parts[len(parts)-1]
}

// refusalOf returns the error of a refused request, and leaves the body readable.
func refusalOf(response *http.Response) error {
	const most = 1 << 16
	body, err := io.ReadAll(io.LimitReader(response.Body, most))
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), response.Body), response.Body}
	var status metav1.Status
	if err == nil && json.Unmarshal(body, &status) == nil && status.Message != "" {
		return fmt.Errorf("%s: %s", response.Status, status.Message)
	}
	return errors.New(response.Status)
}
