package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fettle-io/fettle/internal/lean"
)

const (
	// page is how many nodes are asked for at a time, so that a large cluster is not held in memory as it travels.
	page = 500
	// listTimeout is how long a page may take.
	listTimeout = 30 * time.Second
	// shortest is less than any watch lasts that was really begun.
	shortest = time.Second
)

// errOutdated is why a watch can't go on from where it was, and a list is needed.
var errOutdated = errors.New("the watch is out of date")

// follow takes in all nodes, and then what changes, until something fails. It always begins with a list that is as
// new as the cluster itself: one that an API server may give from an old cache would be believed.
func (s *session) follow(ctx context.Context) error {
	for {
		revision, err := s.list(ctx)
		if err == nil {
			err = s.watch(ctx, revision)
		}
		if !errors.Is(err, errOutdated) {
			return err
		}
	}
}

// list takes in all nodes and gives the revision that they are of.
func (s *session) list(ctx context.Context) (string, error) {
	select {
	case s.lists <- struct{}{}:
		defer func() { <-s.lists }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	var all []*lean.Node
	for next := ""; ; {
		chunk, err := s.page(ctx, next)
		if err != nil {
			return "", fmt.Errorf("listing nodes: %w", err)
		}
		for i := range chunk.Items {
			n := chunk.Items[i] // a node of its own, or one that stays would hold on to all
			all = append(all, &n)
		}
		if next = chunk.Continue; next == "" {
			s.take(state.listed, s.nodes.Replace(all))
			return chunk.ResourceVersion, nil
		}
	}
}

func (s *session) page(ctx context.Context, next string) (*lean.NodeList, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	chunk := &lean.NodeList{}
	request := s.Get().Resource("nodes").Param("limit", strconv.Itoa(page)).MaxRetries(0)
	if next != "" {
		request.Param("continue", next)
	}
	return chunk, request.Do(ctx).Into(chunk) //nolint:wrapcheck // list says what was being done
}

// watch takes in what changes, over one watch after the other, since API servers end each after a while.
func (s *session) watch(ctx context.Context, revision string) error {
	for {
		began := s.Now()
		seconds := 300 + rand.IntN(300) //nolint:gosec // it spreads load, and keeps no secret
		w, err := s.Get().Resource("nodes").Param("watch", "true").Param("allowWatchBookmarks", "true").
			Param("resourceVersion", revision).Param("timeoutSeconds", strconv.Itoa(seconds)).MaxRetries(0).Watch(ctx)
		if err != nil {
			return outdated(fmt.Errorf("watching nodes: %w", err))
		}
		last, err := s.takeAll(ctx, w)
		switch {
		case err != nil:
			return outdated(err)
		case last == "" && s.Now().Sub(began) < shortest+answerTimeout:
			// What begins a watch gives one that has ended where its connection broke.
			return errEnded
		case last != "":
			revision = last
		}
	}
}

var errEnded = errors.New("it ends watches as soon as they have begun")

func outdated(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return errOutdated
	}
	return err
}

// takeAll takes in what a watch brings until it ends, and gives the last revision that it brought.
func (s *session) takeAll(ctx context.Context, w watch.Interface) (string, error) {
	defer w.Stop()
	silent := time.NewTimer(s.Pace.Silence)
	defer silent.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-silent.C: // something on the way may swallow what it should bring
			return "", errOutdated
		case event, more := <-w.ResultChan():
			if !more {
				return last, nil
			}
			revision, err := s.takeOne(event)
			if err != nil {
				return "", err
			}
			last = revision
			silent.Reset(s.Pace.Silence)
		}
	}
}

func (s *session) takeOne(event watch.Event) (string, error) {
	if event.Type == watch.Error {
		return "", fmt.Errorf("watching nodes: %w", apierrors.FromObject(event.Object))
	}
	n, ok := event.Object.(*lean.Node)
	if !ok {
		return "", notNodes(event.Object)
	}
	changed := false
	switch event.Type {
	case watch.Deleted:
		changed = true
		s.nodes.Remove(n.Name)
	case watch.Added, watch.Modified:
		var err error
		if changed, err = s.nodes.Put(n); err != nil {
			return "", fmt.Errorf("taking in what a watch brings: %w", err)
		}
	case watch.Bookmark, watch.Error:
	}
	s.take(state.spoke, changed)
	return n.ResourceVersion, nil
}
