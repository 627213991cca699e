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

	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// atOnce is less than the shortest time for which a watch lasts that has really begun.
const atOnce = time.Second + answerTimeout

// errOutdated reports that a watch can't go on from its revision, so that a list is needed.
var errOutdated = errors.New("the watch is out of date")

// listAndWatch lists all nodes and then watches them, until something fails. The list is always read from the
// cluster's storage. An older one from a cache of the API server would be taken for the present state.
func (s *session) listAndWatch(ctx context.Context) error {
	early := 0 // lists in a row whose watch was soon out of date
	for {
		revision, err := s.list(ctx)
		if err != nil {
			return err
		}
		listed := s.Now()
		err = s.watch(ctx, revision)
		lasted := s.Now().Sub(listed)
		switch {
		case !errors.Is(err, errOutdated):
			return err
		case lasted < s.Timing.ProbeAfter:
			return errAlwaysOutdated
		case lasted >= s.Timing.WatchSilence:
			early = 0
			continue
		}
		early++
		s.update(func(now state, _ time.Time) state { return now.lost(outOfDate(s.host)) }) // no watch runs in the pause
		sleep(ctx, s.Timing.pause(early, s.Timing.MaxPause, rand.Float64()))                //nolint:gosec // it spreads load, and keeps no secret
	}
}

func outOfDate(host string) string {
	return fmt.Sprintf("the API server at %s ends watches of its nodes as out of date, and they are listed again after a pause; %s",
		sanitize.URL(host), errAlwaysOutdated.advice)
}

// watch runs one watch after the other, since API servers end each after a while. Pauses follow watches that end
// early. They grow up to the time after which a silent cluster is probed, because a change in a pause is seen only
// at its end.
func (s *session) watch(ctx context.Context, revision string) error {
	for early := 0; ; {
		began := s.Now()
		last, err := s.watchOnce(ctx, revision)
		lasted := s.Now().Sub(began)
		switch {
		case err != nil:
			return outdated(err)
		case last == "" && lasted < atOnce:
			return errEnded
		case last != "":
			revision = last
		}
		if lasted >= s.Timing.MaxPause {
			early = 0
			continue
		}
		early++
		sleep(ctx, s.Timing.pause(early, s.Timing.ProbeAfter, rand.Float64())) //nolint:gosec // the same
	}
}

// sleep waits, and returns early when the context ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

var errEnded = errors.New("it ends watches as soon as they have begun")

func outdated(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return errOutdated
	}
	return err
}

// watchSeconds returns the time limit of a watch, which the API server keeps. Chance, from 0 to 1, spreads the ends of watches
// that began together.
func watchSeconds(chance float64) int { return 300 + int(300*chance) }

// watchOnce handles the events of a watch until it ends, and returns the last revision that they had.
func (s *session) watchOnce(ctx context.Context, revision string) (string, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	// A proxy on the way may drop the events of the watch.
	silent := time.AfterFunc(s.Timing.WatchSilence, func() { end(errOutdated) })
	defer silent.Stop()
	seconds := watchSeconds(rand.Float64()) //nolint:gosec // it spreads load, and keeps no secret
	body, err := s.Get().Resource("nodes").Param("watch", "true").Param("allowWatchBookmarks", "true").
		Param("resourceVersion", revision).Param("timeoutSeconds", strconv.Itoa(seconds)).MaxRetries(0).Stream(ctx)
	if err != nil {
		return "", fmt.Errorf("watching nodes: %w", causeIn(ctx, err))
	}
	defer body.Close()
	events := &stream{body: body, stalls: func() { end(errStalled) }, patience: answerTimeout}
	for last := ""; ; silent.Reset(s.Timing.WatchSilence) {
		frame, err := events.next()
		switch {
		case err == nil:
		case isEnd(err):
			return last, nil
		default:
			return "", fmt.Errorf("watching nodes: %w", causeIn(ctx, err))
		}
		if last, err = s.handleFrame(ctx, frame); err != nil {
			return "", err
		}
	}
}

// handleFrame handles an encoded event, at the rate at which this cluster may send events.
func (s *session) handleFrame(ctx context.Context, frame []byte) (string, error) {
	if err := s.events.WaitN(ctx, 1+len(frame)/eventUnit); err != nil {
		return "", fmt.Errorf("waiting to take in an event: %w", causeIn(ctx, err))
	}
	e, err := decodeEvent(frame)
	if err != nil {
		return "", err
	}
	return e.node.ResourceVersion, s.handleEvent(e)
}

func (s *session) handleEvent(e event) error {
	changed := false
	switch e.kind {
	case watch.Deleted:
		changed = true
		s.removeNode(e.node.Name)
		s.nodes.Remove(e.node.Name)
	case watch.Added, watch.Modified:
		s.removeNode(e.node.Name)
		if err := s.addNode(weigh(node.FactsOf(e.node))); err != nil {
			return err
		}
		changed = s.nodes.Put(e.node)
	case watch.Bookmark, watch.Error:
	default:
		return errNotNodes
	}
	s.updateAndWake(state.heardFrom, changed)
	return nil
}

// addNode adds a node to the number and the weight of the stored nodes.
func (s *session) addNode(weight int) error {
	if !s.budget.reserve(s.cluster.Namespace, weight) {
		return tooHeavyTogether(s.Bounds.Memory)
	}
	s.nodeCount, s.weight = s.nodeCount+1, s.weight+weight
	return s.Bounds.check(s.nodeCount, s.weight)
}

// removeNode subtracts a node from the number and the weight. It must run before the store loses or replaces the
// node.
func (s *session) removeNode(name string) {
	s.nodes.Lookup(func(find func(string) (node.Facts, bool)) {
		if before, known := find(name); known {
			weight := weigh(before)
			s.budget.release(s.cluster.Namespace, weight)
			s.nodeCount, s.weight = s.nodeCount-1, s.weight-weight
		}
	})
}
