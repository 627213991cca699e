package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// call is a request, ready to be sent.
type call struct {
	verb, path, contentType string
	body                    []byte
}

// method is the HTTP method.
func (c *call) method() string {
	switch c.verb {
	case "get":
		return http.MethodGet
	case "create":
		return http.MethodPost
	case "patch":
		return http.MethodPatch
	default:
		return http.MethodDelete
	}
}

// bare makes the requests of the outage again, for other targets. Its client knows the requests beforehand and does
// nothing else. So they are made without Fettle, but beside as many heartbeats. They become due as in the outage, and
// as many are sent at a time. No controller can be faster.
func (r *run) bare(ctx context.Context) error {
	others := r.spared()
	if len(others) < r.Broken {
		say("no requests by a bare client: only %d targets are left that didn't break", len(others))
		return nil
	}
	say("the requests of the outage again, by a client that does nothing else")
	r.fettle.Stop()
	calls, err := r.prepare(ctx, others[:r.Broken])
	if err != nil {
		return err
	}
	api, err := newSender(r.stage.Admin, "bare", runtime.ContentTypeJSON)
	if err != nil {
		return err
	}
	if err := r.servers.collectGarbage(ctx); err != nil {
		return err
	}
	pulse := r.kubelets.startHeartbeats(ctx, r.indices(false), r.Rate)
	began, lost := time.Now(), r.stolen()
	late, failed := sendInGroups(ctx, calls, r.result.Outage.Deadlines, time.Second, func(ctx context.Context, c call) error {
		return c.send(ctx, api)
	})
	r.result.Bare = bareRequests{distribution: distributionOf(late), Stolen: r.stolenSince(began, lost)}
	return errors.Join(failed, pulse.stop())
}

// spared are the targets whose nodes did not break.
func (r *run) spared() []int {
	return slices.DeleteFunc(r.indices(false), func(i int) bool { return i >= r.targets() })
}

// prepare renders the call for each of these targets in its present state.
func (r *run) prepare(ctx context.Context, indices []int) ([]call, error) {
	now := map[string]*unstructured.Unstructured{}
	if !r.withoutMachines {
		c, err := dynamic.NewForConfig(r.stage.Admin)
		if err != nil {
			return nil, fmt.Errorf("making a client: %w", err)
		}
		list, err := c.Resource(r.remedyCall.resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", r.remedyCall.resource.Resource, err)
		}
		for i := range list.Items {
			now[list.Items[i].GetName()] = &list.Items[i]
		}
	}
	calls := make([]call, len(indices))
	for i, index := range indices {
		name := r.target(index)
		body, err := r.remedyCall.body(name, now[name])
		if err != nil {
			return nil, fmt.Errorf("rendering the request for %s %s: %w", r.remedyCall.noun, name, err)
		}
		calls[i] = r.remedyCall.call(name, body)
	}
	return calls, nil
}

// call returns the remedy's call for the object of this name.
func (d *remedyCall) call(name string, body []byte) call {
	to := path.Join("/apis", d.resource.Group, d.resource.Version, "namespaces", d.namespace, d.resource.Resource)
	if d.verb != "create" {
		to = path.Join(to, name, d.subresource)
	}
	contentType := d.contentType
	if contentType == "" {
		contentType = runtime.ContentTypeJSON
	}
	return call{verb: d.verb, path: to, contentType: contentType, body: body}
}

// send sends the request.
func (c *call) send(ctx context.Context, api rest.Interface) error {
	err := patiently(func() error {
		return api.Verb(c.method()).AbsPath(c.path).SetHeader("Content-Type", c.contentType).Body(c.body).Do(ctx).Error()
	})
	if err != nil {
		return fmt.Errorf("sending %s %s: %w", c.verb, c.path, err)
	}
	return nil
}

// sendInGroups sends calls, as many at a time as Fettle does. Each group is due some time after the one before it. It
// returns how long after that each call was sent.
func sendInGroups[C any](ctx context.Context, calls []C, groups []int, apart time.Duration, send func(context.Context, C) error) ([]time.Duration, error) {
	late := make([]time.Duration, len(calls))
	sending, together := errgroup.WithContext(ctx)
	sending.SetLimit(makers)
	due, next := time.Now(), 0
	for _, size := range groups {
		if err := pause(together, time.Until(due)); err != nil {
			break // a call has failed, or the run is to end
		}
		for ; size > 0 && next < len(calls); size-- {
			i, since := next, due
			sending.Go(func() error {
				late[i] = time.Since(since)
				return send(together, calls[i])
			})
			next++
		}
		due = due.Add(apart)
	}
	return late, errors.Join(sending.Wait(), ctx.Err())
}
