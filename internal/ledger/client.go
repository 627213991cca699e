package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// Kind is the resource without which nothing can be recorded and so nothing is started, by the name
// of its definition.
const Kind = "repairs.fettle.io"

// Config is what a Client needs. Every field is required.
type Config struct {
	Informers cache.Informers
	// Live reads from the API server itself.
	Live   client.Reader
	Writer client.Client
	// Wake is called when somebody has deleted an entry or changed how far it has come.
	Wake func()
}

// Client is the ledger. It is safe for concurrent use.
type Client struct {
	Config

	mu      sync.Mutex
	entries map[string]core.Repair
	synced  toolscache.InformerSynced
}

// NewClient makes a ledger that watches nothing yet.
func NewClient(c Config) *Client {
	return &Client{Config: c, entries: map[string]core.Repair{}}
}

// +kubebuilder:rbac:groups=fettle.io,resources=repairs,verbs=list;watch;create;delete
// +kubebuilder:rbac:groups=fettle.io,resources=repairs/status,verbs=patch

// Watch begins to watch. It fails with a NoMatch error while Repairs are not served, and may be
// called again then. Once it has succeeded, calling it again does nothing.
func (c *Client) Watch(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.synced != nil {
		return nil
	}
	informer, err := c.Informers.GetInformer(ctx, &v1alpha1.Repair{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching repairs: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    c.put,
		UpdateFunc: func(_, obj any) { c.put(obj) },
		DeleteFunc: c.drop,
	})
	if err != nil {
		return fmt.Errorf("subscribing to repairs: %w", err)
	}
	c.synced = registration.HasSynced
	return nil
}

func (c *Client) put(obj any) {
	r, ok := obj.(*v1alpha1.Repair)
	if !ok {
		return
	}
	c.mu.Lock()
	c.entries[r.Namespace+"/"+r.Name] = read(r)
	c.mu.Unlock()
	if r.Status.Attempts > 0 {
		c.Wake()
	}
}

func (c *Client) drop(obj any) {
	key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	c.mu.Lock()
	delete(c.entries, key)
	c.mu.Unlock()
	c.Wake()
}

// Trim drops what nobody reads, before a cache keeps a Repair. It is an informer transform.
func Trim(obj any) (any, error) {
	if r, ok := obj.(*v1alpha1.Repair); ok {
		r.ManagedFields = nil
	}
	return obj, nil
}

// InStep tells whether what is watched has been taken in.
func (c *Client) InStep() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.synced != nil && c.synced()
}

// Entries gives all repairs, and whether they are in step with the cluster.
func (c *Client) Entries() ([]core.Repair, core.Tri) {
	if !c.InStep() {
		return nil, core.Unknown
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	entries := make([]core.Repair, 0, len(c.entries))
	for _, r := range c.entries {
		entries = append(entries, r)
	}
	return entries, core.Yes
}

// chunk is how many Repairs are read in one call.
const chunk = 500

// Running gives the repairs that have not ended, as the API server itself has them.
func (c *Client) Running(ctx context.Context) ([]core.Repair, error) {
	var running []core.Repair
	list := &v1alpha1.RepairList{}
	for {
		if err := c.Live.List(ctx, list, client.Limit(chunk), client.Continue(list.Continue)); err != nil {
			return nil, fmt.Errorf("listing Repairs: %w", err)
		}
		for i := range list.Items {
			if r := read(&list.Items[i]); r.Running() {
				running = append(running, r)
			}
		}
		if list.Continue == "" {
			return running, nil
		}
	}
}

// Open creates an entry, or returns false when there is one of that name.
func (c *Client) Open(ctx context.Context, e core.Entry) (core.Repair, bool, error) {
	r := render(e)
	err := c.Writer.Create(ctx, r)
	switch {
	case apierrors.IsAlreadyExists(err):
		return core.Repair{}, false, nil
	case err != nil:
		return core.Repair{}, false, fmt.Errorf("creating Repair %s/%s: %w", r.Namespace, r.Name, err)
	}
	return read(r), true, nil
}

// Amend writes how far a repair has come. When somebody has deleted it there is nothing to amend.
func (c *Client) Amend(ctx context.Context, r core.Repair, text string) error {
	body, err := json.Marshal(map[string]any{"status": progress(r, text)})
	if err != nil {
		return fmt.Errorf("encoding the status of Repair %s/%s: %w", r.Namespace, r.Name, err)
	}
	object := &v1alpha1.Repair{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
	err = c.Writer.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, body))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patching the status of Repair %s/%s: %w", r.Namespace, r.Name, err)
	}
	return nil
}

// Drop deletes an entry. A missing one is no error.
func (c *Client) Drop(ctx context.Context, r core.Repair) error {
	object := &v1alpha1.Repair{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
	if err := c.Writer.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Repair %s/%s: %w", r.Namespace, r.Name, err)
	}
	return nil
}
