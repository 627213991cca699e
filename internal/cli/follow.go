package cli

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/sanitize"
)

const (
	// collectFor is how long changes are collected before the next answer, since they come in bursts.
	collectFor = 200 * time.Millisecond
	// The pauses before the cluster is read again after that has failed.
	firstRetry, longestRetry = time.Second, 30 * time.Second
)

// follow prints each new answer. It reads once, and then watches. It reads again when a watch ends, which the API
// server does every few minutes, or when a step names kinds that were not read.
func (s *session) follow(ctx context.Context, ask answerFunc) error {
	pause, shown := firstRetry, ""
	for first := true; ctx.Err() == nil; first = false {
		v, err := s.read(ctx)
		if err != nil {
			if first || ctx.Err() != nil {
				return ignoreEnd(ctx, err)
			}
			fmt.Fprintf(s.err, "%s; trying again in %s\n", sanitize.Failure(sanitize.MaxMessage, err), pause)
			wait(ctx, pause)
			pause = min(2*pause, longestRetry)
			continue
		}
		pause = firstRetry
		ended, err := s.followOn(ctx, v, ask, &shown)
		if ended || err != nil {
			return ignoreEnd(ctx, err)
		}
	}
	return nil
}

// ignoreEnd drops the error of a call that a signal has interrupted.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// followOn prints answers until a watch ends, or the answer is final.
func (s *session) followOn(ctx context.Context, v *view, ask answerFunc, shown *string) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, err := v.watch(ctx, s.cluster)
	if err != nil {
		return false, err
	}
	for {
		key, a, err := s.ask(ctx, v, ask)
		if err != nil {
			return false, err
		}
		if key != *shown {
			*shown = key
			if err := s.show(a, v, true); err != nil {
				return false, err
			}
		}
		if a.ended {
			return true, nil
		}
		again := s.Now().Add(retryUnread)
		if !v.nodesUnread || (!a.nextAt.IsZero() && a.nextAt.Before(again)) {
			again = a.nextAt
		}
		open := v.await(ctx, changes, s.until(again))
		if !open || v.needsMore() || len(v.unreadWorkloads()) > 0 || (v.nodesUnread && !s.Now().Before(again)) {
			return ctx.Err() != nil, nil
		}
	}
}

// until returns the time to an instant. For the zero instant it returns a time that never passes.
func (s *session) until(at time.Time) time.Duration {
	if at.IsZero() {
		return 1 << 62
	}
	return max(0, at.Sub(s.Now()))
}

// change is an event of a watch. of is the source that is watched.
type change struct {
	of    *Source
	event watch.Event
	open  bool
}

// watch watches every list that was read, from its revision on.
func (v *view) watch(ctx context.Context, c client.WithWatch) (<-chan change, error) {
	changes := make(chan change)
	for i := range v.followed {
		f := &v.followed[i]
		list, _ := f.List.DeepCopyObject().(client.ObjectList)
		at := c
		if f.at != nil {
			at = f.at
		}
		w, err := at.Watch(ctx, list, &client.ListOptions{Namespace: f.namespace, Raw: &metav1.ListOptions{ResourceVersion: f.revision, AllowWatchBookmarks: true}})
		if err != nil {
			return nil, explainFailure("watch", f.Source, f.namespace, err)
		}
		go forward(ctx, &f.Source, w, changes)
	}
	return changes, nil
}

func forward(ctx context.Context, source *Source, w watch.Interface, changes chan<- change) {
	defer w.Stop()
	for {
		event, open := <-w.ResultChan()
		select {
		case changes <- change{of: source, event: event, open: open && event.Type != watch.Error}:
		case <-ctx.Done():
			return
		}
		if !open {
			return
		}
	}
}

// await applies changes until one can change the answer, or the time is up. It returns false when a watch has ended.
func (v *view) await(ctx context.Context, changes <-chan change, within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case c := <-changes:
			if !c.open {
				return false
			}
			if c.apply() {
				timer.Reset(min(collectFor, within))
			}
		}
	}
}

// apply stores a change, and reports whether it can change an answer.
func (c change) apply() bool {
	o, ok := c.event.Object.(client.Object)
	if !ok {
		return false
	}
	switch c.event.Type {
	case watch.Added, watch.Modified:
		return c.of.Put(o)
	case watch.Deleted:
		c.of.Drop(key(o))
		return true
	case watch.Bookmark, watch.Error:
	}
	return false
}

// key returns namespace/name, or the name of a cluster-scoped object.
func key(o client.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
