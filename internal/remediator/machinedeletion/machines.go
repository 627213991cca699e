package machinedeletion

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Machine has the fields of a watched machine that the remediator uses.
type Machine struct {
	UID types.UID
	// Owner is the UID of the controller that owns it, or empty.
	Owner types.UID
	// Name is its name, without the namespace.
	Name string
	// Node is the name of the node that it refers to, or empty.
	Node     string
	Deleting bool
}

// pools are the owners whose machines remediations wait for. It is safe for concurrent use.
//
// While many machines of one owner are replaced, each of their events wakes many remediations. So an owner's machines
// are counted once after each change, and all these remediations use that count.
type pools struct {
	mu      sync.Mutex
	waiting map[types.UID][]types.NamespacedName
	// changes counts the events of an owner's machines. counted has the last count, with the number of changes before
	// it.
	changes map[types.UID]int
	counted map[types.UID]count
}

type count struct {
	pool
	at int
}

func newPools() *pools {
	return &pools{waiting: map[types.UID][]types.NamespacedName{}, changes: map[types.UID]int{}, counted: map[types.UID]count{}}
}

// await wakes a remediation whenever a machine of an owner changes.
func (p *pools) await(owner types.UID, remediation types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.waiting[owner], remediation) {
		p.waiting[owner] = append(p.waiting[owner], remediation)
	}
}

// forget ends all waits of a remediation.
func (p *pools) forget(remediation types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for owner, waiting := range p.waiting {
		i := slices.Index(waiting, remediation)
		switch {
		case i < 0:
		case len(waiting) > 1:
			p.waiting[owner] = slices.Delete(waiting, i, i+1)
		default:
			delete(p.waiting, owner)
			delete(p.changes, owner)
			delete(p.counted, owner)
		}
	}
}

// changed notes a change of a machine of an owner, and returns the remediations that wait for it.
func (p *pools) changed(owner types.UID) []types.NamespacedName {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting[owner]) == 0 {
		return nil
	}
	p.changes[owner]++
	return slices.Clone(p.waiting[owner])
}

// count returns the last count of an owner's machines, or counts them. It counts again after a change during the count.
// It keeps the count only of owners that a remediation waits for.
func (p *pools) count(owner types.UID, list func() (pool, error)) (pool, error) {
	p.mu.Lock()
	now := p.changes[owner]
	last, known := p.counted[owner]
	p.mu.Unlock()
	if known && last.at == now {
		return last.pool, nil
	}
	counted, err := list()
	if err != nil {
		return pool{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting[owner]) > 0 {
		p.counted[owner] = count{counted, now}
	}
	return counted, nil
}

// machineEvents wakes the remediations that wait for the machines of an owner.
func (c *Client) machineEvents() toolscache.ResourceEventHandler {
	wake := func(m Machine) {
		for _, key := range c.pools.changed(m.Owner) {
			c.queue.Add(key)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if m, ok := c.readMachine(obj); ok {
				wake(m)
			}
		},
		UpdateFunc: func(old, obj any) {
			before, ok1 := c.readMachine(old)
			after, ok2 := c.readMachine(obj)
			if !ok1 || !ok2 || before == after {
				return
			}
			wake(after)
			if before.Owner != after.Owner {
				wake(before)
			}
		},
		DeleteFunc: func(obj any) {
			if last, gone := obj.(toolscache.DeletedFinalStateUnknown); gone {
				obj = last.Obj
			}
			if m, ok := c.readMachine(obj); ok {
				wake(m)
			}
		},
	}
}

func (c *Client) readMachine(obj any) (Machine, bool) {
	o, ok := obj.(client.Object)
	if !ok {
		return Machine{}, false
	}
	return c.Read(o), true
}

// getCachedMachine reads the recorded machine from the cache.
func (c *Client) getCachedMachine(ctx context.Context, key types.NamespacedName, uid types.UID) (*cachedMachine, error) {
	m, ok := c.Machine.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("reading machine %s: %T is no object", key, c.Machine)
	}
	err := c.Cache.Get(ctx, key, m)
	switch {
	case apierrors.IsNotFound(err):
		return &cachedMachine{}, nil
	case err != nil:
		return nil, fmt.Errorf("reading machine %s: %w", key, err)
	}
	there := m.GetUID() == uid
	return &cachedMachine{exists: there, deleting: there && c.Read(m).Deleting}, nil
}

// poolOf counts the machines of an owner, except one of them. It also looks for another machine of the namespace that
// refers to a node.
func (c *Client) poolOf(ctx context.Context, namespace string, owner, without types.UID, node string) (pool, error) {
	list, ok := c.Machines.DeepCopyObject().(client.ObjectList)
	if !ok {
		return pool{}, fmt.Errorf("counting machines: %T is no list", c.Machines)
	}
	if err := c.Cache.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return pool{}, fmt.Errorf("counting machines: %w", err)
	}
	var counted pool
	err := meta.EachListItem(list, func(item runtime.Object) error {
		if m, read := c.readMachine(item); read && !m.Deleting && m.UID != without {
			counted.add(m, owner, node)
		}
		return nil
	})
	if err != nil {
		return pool{}, fmt.Errorf("counting machines: %w", err)
	}
	return counted, nil
}

func (p *pool) add(m Machine, owner types.UID, node string) {
	if node != "" && m.Node == node && (p.sameNode == "" || m.Name < p.sameNode) {
		p.sameNode = m.Name
	}
	switch {
	case m.Owner != owner:
	case m.Node != "":
		p.joined++
	default:
		p.coming++
	}
}
