package faults

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// undoing is the finalizer by which a remediator keeps its object until everything is undone.
const undoing = "sandbox.fettle.io/remediation"

// remediate does the work of a remediator for its object. It does nothing while the lock is held.
func (m *monitor) remediate(o *objectSeen) {
	switch {
	case o.to != 0:
	case o.leaving != 0:
		if m.undo >= 0 {
			m.later(m.undo, func(ctx context.Context) error { return m.letGo(ctx, o) })
		}
	case !o.takenUp:
		o.takenUp = true
		m.later(0, func(ctx context.Context) error { return m.takeUp(ctx, o) })
		if m.work >= 0 {
			m.later(m.work, func(ctx context.Context) error { return m.conclude(ctx, o) })
		}
	}
}

// later calls a function after a while. It retries while the API server is away.
func (m *monitor) later(while time.Duration, do func(context.Context) error) {
	time.AfterFunc(while, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := do(ctx); client.IgnoreNotFound(err) != nil && !m.isOver() {
			m.later(100*time.Millisecond, do)
		}
	})
}

func (m *monitor) isOver() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.over
}

func (o *objectSeen) key() *unstructured.Unstructured {
	return object(remediators, o.kind, o.namespace, o.name)
}

// patch changes this very object. It leaves a new object of the same name alone.
func (m *monitor) patch(ctx context.Context, o *objectSeen, metadata map[string]any) error {
	u := o.key()
	if err := m.pool.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		return err
	}
	if m.isOther(o, u.GetUID()) {
		return nil
	}
	metadata["uid"], metadata["resourceVersion"] = string(u.GetUID()), u.GetResourceVersion()
	return m.pool.Patch(ctx, u, merge(map[string]any{"metadata": metadata}))
}

func (m *monitor) isOther(o *objectSeen, uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.objects[string(uid)] != o
}

func (m *monitor) takeUp(ctx context.Context, o *objectSeen) error {
	m.mu.Lock()
	late := o.leaving != 0
	m.mu.Unlock()
	if late { // it was deleted before the remediator saw it
		return nil
	}
	return m.patch(ctx, o, map[string]any{"finalizers": []any{undoing}})
}

func (m *monitor) letGo(ctx context.Context, o *objectSeen) error {
	return m.patch(ctx, o, map[string]any{"finalizers": nil})
}

// conclude makes the node healthy, or says that this is not possible.
func (m *monitor) conclude(ctx context.Context, o *objectSeen) error {
	m.mu.Lock()
	fails, late := slices.Contains(m.failing, o.template), o.leaving != 0 || o.toldToStop || o.to != 0
	m.mu.Unlock()
	if late {
		return nil
	}
	status := "False"
	if !fails {
		status = "True"
		if err := m.pool.report(ctx, o.node, corev1.NodeReady, corev1.ConditionTrue, time.Now()); err != nil {
			return err
		}
	}
	return m.pool.Status().Patch(ctx, o.key(), merge(map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": "Succeeded", "status": status, "reason": "Test", "message": "", "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
	}}}}))
}

// holdWork makes remediators work without end, and holdUndo makes them keep deleted objects, until the test says
// otherwise.
func (m *monitor) holdWork() { m.set(func() { m.work = held }) }
func (m *monitor) holdUndo() { m.set(func() { m.undo = held }) }

func (m *monitor) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func (m *monitor) failsAt(template string) { m.set(func() { m.failing = append(m.failing, template) }) }

// letWork makes remediators finish their work, and all later work after a while.
func (m *monitor) letWork() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.work = 200 * time.Millisecond
	for _, o := range m.objects {
		if o.to == 0 && o.leaving == 0 && !o.foreign {
			m.later(0, func(ctx context.Context) error { return m.conclude(ctx, o) })
		}
	}
}

// letUndo makes them release deleted objects, and all later ones after a while.
func (m *monitor) letUndo() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.undo = 100 * time.Millisecond
	for _, o := range m.objects {
		if o.to == 0 && o.leaving != 0 {
			m.later(0, func(ctx context.Context) error { return m.letGo(ctx, o) })
		}
	}
}

// forgetAll stops the remediators, and returns the nodes that are left.
func (m *monitor) forgetAll() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	var left []string
	for _, n := range m.nodes {
		if !n.last().gone {
			left = append(left, n.name)
		}
	}
	return left
}
