package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

// remedyCalls holds when a watcher first saw the effect of Fettle's call for each target.
type remedyCalls struct {
	remedyCall

	watcher *toolswatch.RetryWatcher

	mu  sync.Mutex
	at  map[string]time.Time
	err error
}

func (r *run) watchRemedyCalls(ctx context.Context) (*remedyCalls, error) {
	c, err := dynamic.NewForConfig(r.stage.Admin)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	objects := c.Resource(r.remedyCall.resource)
	list, err := objects.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", r.remedyCall.resource.Resource, err)
	}
	watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", r.remedyCall.resource.Resource, err)
	}
	d := &remedyCalls{remedyCall: r.remedyCall, watcher: watcher, at: map[string]time.Time{}}
	go d.note()
	return d, nil
}

func (d *remedyCalls) note() {
	for event := range d.watcher.ResultChan() {
		now := time.Now()
		o, ok := event.Object.(*unstructured.Unstructured)
		d.mu.Lock()
		switch {
		case !ok:
			d.err = fmt.Errorf("watching %s: %v", d.resource.Resource, event.Object)
		case event.Type != watch.Bookmark && d.shows(event.Type, o):
			if _, known := d.at[o.GetName()]; !known {
				d.at[o.GetName()] = now
			}
		}
		d.mu.Unlock()
	}
}

func (d *remedyCalls) stop() { d.watcher.Stop() }

func (d *remedyCalls) failed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *remedyCalls) seen() map[string]time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.at)
}

// countIn counts the accepted calls for each target.
func (d *remedyCall) countIn(requests []request) map[string]int {
	counted := map[string]int{}
	for _, r := range requests {
		if r.verb == d.verb && r.resource == d.object() && r.code < 300 {
			counted[r.name]++
		}
	}
	return counted
}

// onlyTo returns an error unless Fettle made the call for exactly the victims, once for each and not before its
// deadline.
func (d *remedyCall) onlyTo(victims []victim, seen map[string]time.Time, done map[string]int) error {
	var problems []string
	expected := map[string]bool{}
	for _, v := range victims {
		expected[v.target] = true
		switch {
		case done[v.target] != 1:
			problems = append(problems, fmt.Sprintf("%s %s was %s %d times instead of once", d.noun, v.target, d.participle, done[v.target]))
		case seen[v.target].Before(v.deadline):
			problems = append(problems, fmt.Sprintf("%s %s was %s %s before its deadline", d.noun, v.target, d.participle, v.deadline.Sub(seen[v.target])))
		}
	}
	for name := range done {
		if !expected[name] {
			problems = append(problems, fmt.Sprintf("%s %s was %s and is not broken", d.noun, name, d.participle))
		}
	}
	for name := range seen {
		if !expected[name] && done[name] == 0 {
			problems = append(problems, fmt.Sprintf("%s %s was %s, and neither was it broken nor was it Fettle", d.noun, name, d.participle))
		}
	}
	return wrong(problems)
}

// notAgain returns an error if Fettle made the call for another target once the victims were healthy again. A call that
// reverses the remedy may have the same name.
func (d *remedyCall) notAgain(victims []victim, done map[string]int) error {
	allowed := map[string]bool{}
	for _, v := range victims {
		allowed[v.target] = d.reversed
	}
	var problems []string
	for name := range done {
		if !allowed[name] {
			problems = append(problems, fmt.Sprintf("%s %s was %s after all were healthy again", d.noun, name, d.participle))
		}
	}
	return wrong(problems)
}

func wrong(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	return errors.New("Fettle did something wrong: " + strings.Join(problems, "; "))
}
