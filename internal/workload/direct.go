package workload

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/sanitize"
)

const (
	// secretAge is how long a kubeconfig is used before its Secret is read again.
	secretAge = 15 * time.Second
	// unusedAge is how long the client of a cluster is kept without a request.
	unusedAge = 10 * time.Minute
	// directRequests is how many requests to one cluster are under way at a time. The others wait for directWait at most.
	directRequests, directWait = 8, 5 * time.Second
	// directTimeout bounds a request, and the wait for it.
	directTimeout = 10 * time.Second
	// podPage and volumePage are how many objects the first request of a list requests. After a page that is too large, requests
	// ask for fewer.
	podPage, volumePage = 64, 256
	// mostParts is how many taints, and how many conditions, a node may have.
	mostParts = 256
	// mostText bounds each of the identifiers of a node, which a PowerRemediation records. mostMetadata bounds the bytes of its labels,
	// annotations and taints together, which it may record too. API servers accept 256 KiB of annotations.
	mostText, mostMetadata = 256, 320 << 10
)

// Direct reaches workload clusters for remediators. It keeps no nodes, and reads and writes at the API server of the cluster only. Each
// request is bounded in time and size. It is safe for concurrent use.
type Direct struct {
	Config

	mu        sync.Mutex
	byCluster map[types.NamespacedName]*DirectClient
}

// NewDirect returns a Direct that has no client yet. Of the configuration it uses Secrets, Now and UserAgent.
func NewDirect(c Config) *Direct {
	return &Direct{Config: complete(c), byCluster: map[types.NamespacedName]*DirectClient{}}
}

// DirectClient is the client of one workload cluster. It reads, patches and deletes nodes, and lists pods and VolumeAttachments. Its errors
// have texts for users, and quote no host.
type DirectClient struct {
	*Direct

	cluster types.NamespacedName
	slots   chan struct{}

	// mu guards what follows. It is held while the Secret is read.
	mu             sync.Mutex
	api            *apiClient
	kubeconfigHash [sha256.Size]byte
	readAt         time.Time

	// usedAt is guarded by Direct.
	usedAt time.Time
}

// Client returns the client of a cluster. It connects with the first request.
func (d *Direct) Client(cluster types.NamespacedName) *DirectClient {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Now()
	for key, c := range d.byCluster {
		if len(c.slots) == 0 && now.Sub(c.usedAt) > unusedAge {
			delete(d.byCluster, key) // its idle connections end by themselves
		}
	}
	c := d.byCluster[cluster]
	if c == nil {
		c = &DirectClient{Direct: d, cluster: cluster, slots: make(chan struct{}, directRequests)}
		d.byCluster[cluster] = c
	}
	c.usedAt = now
	return c
}

// current returns a connection by the present kubeconfig.
func (c *DirectClient) current(ctx context.Context) (*apiClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	if now.Sub(c.readAt) < secretAge {
		return c.api, nil
	}
	raw, err := c.kubeconfig(ctx, c.cluster)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(raw)
	if hash != c.kubeconfigHash { // a first one differs too
		config, err := readKubeconfig(raw)
		if err != nil {
			return nil, userErrorf("the kubeconfig in Secret %s can't be used: %s", secretOf(c.cluster), err)
		}
		config.UserAgent = c.UserAgent
		api, err := c.Config.open(config)
		if err != nil {
			return nil, userErrorf("the kubeconfig in Secret %s can't be used: %s", secretOf(c.cluster), err)
		}
		c.api, c.kubeconfigHash = api, hash // requests by the former end in their time
	}
	c.readAt = now
	return c.api, nil
}

var errCrowded = errors.New("other requests to it have not been answered yet")

// do makes one request, and returns the body of the answer.
func (c *DirectClient) do(ctx context.Context, verb, resource string, build func(*apiClient) *rest.Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(withLimit(withoutLogging(ctx), objectBytes), directTimeout)
	defer cancel()
	if !c.waitForSlot(ctx) {
		return nil, userErrorf("workload cluster %s: %s", c.cluster, errCrowded)
	}
	defer func() { <-c.slots }()
	api, err := c.current(ctx)
	if err != nil {
		return nil, err
	}
	result := build(api).SetHeader("Accept", "application/json").MaxRetries(0).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, c.explained(err, api.host, verb, resource)
	}
	body, _ := result.Raw() // its error is the one above
	return body, nil
}

// waitForSlot reports whether another request may be made.
func (c *DirectClient) waitForSlot(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, directWait)
	defer cancel()
	select {
	case c.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// explained returns an error with a text for users. It stays recognizable as what the API server said, unless any host may have said it.
func (c *DirectClient) explained(err error, host, verb, resource string) error {
	text := explain(err, host, secretOf(c.cluster).String())
	switch {
	case apierrors.IsUnexpectedServerError(err):
		return userErrorf("%s", text)
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsInvalid(err):
		text = causeOf(err)
	case apierrors.IsForbidden(err):
		text = fmt.Sprintf("the user in Secret %s may not %s %s of its cluster; a PowerRemediation needs get, patch and delete of nodes, and list of pods and volumeattachments there",
			secretOf(c.cluster), verb, resource)
	}
	return sanitize.Reword(err, text)
}

// errOther is the error about a kind that a remediator doesn't read.
var errOther = errors.New("remediators don't use objects of this type of workload clusters")

// Get reads a node.
func (c *DirectClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	n, is := obj.(*corev1.Node)
	if !is {
		return fmt.Errorf("getting a %T: %w", obj, errOther)
	}
	body, err := c.do(ctx, "get", "nodes", func(api *apiClient) *rest.Request { return api.RESTClient.Get().Resource("nodes").Name(key.Name) })
	if err != nil {
		return err
	}
	return c.decodeNode(body, key.Name, n)
}

// decodeNode decodes a node of a name, and leaves out what remediators don't use.
func (c *DirectClient) decodeNode(body []byte, name string, into *corev1.Node) error {
	decoding.Lock()
	defer decoding.Unlock()
	read := corev1.Node{}
	if json.Unmarshal(body, &read) != nil || !isOf(read.TypeMeta, corev1.SchemeGroupVersion, "Node") || read.Name != name ||
		len(read.Spec.Taints) > mostParts || len(read.Status.Conditions) > mostParts || !isRecordable(&read) {
		return c.unusable()
	}
	*into = corev1.Node{
		ObjectMeta: read.ObjectMeta, Spec: corev1.NodeSpec{Taints: read.Spec.Taints, Unschedulable: read.Spec.Unschedulable},
		Status: corev1.NodeStatus{Conditions: read.Status.Conditions, NodeInfo: read.Status.NodeInfo},
	}
	into.ManagedFields = nil
	return nil
}

// isRecordable reports whether what a PowerRemediation records of a node leaves room in it.
func isRecordable(n *corev1.Node) bool {
	size := 0
	for _, part := range [...]map[string]string{n.Labels, n.Annotations} {
		for key, value := range part {
			size += len(key) + len(value)
		}
	}
	for i := range n.Spec.Taints {
		size += len(n.Spec.Taints[i].Key) + len(n.Spec.Taints[i].Value) + len(n.Spec.Taints[i].Effect)
	}
	info := &n.Status.NodeInfo
	return size <= mostMetadata && max(len(n.UID), len(n.ResourceVersion), len(info.BootID), len(info.SystemUUID)) <= mostText
}

// unusable returns the error about an answer that is not what was requested. The cause could quote the answer.
func (c *DirectClient) unusable() error {
	return userErrorf("workload cluster %s can't be used: %s; %s", c.cluster, errNotObjects, seeWhatAnswers)
}

func isOf(t metav1.TypeMeta, version schema.GroupVersion, kind string) bool {
	return t.Kind == kind && t.APIVersion == version.String()
}

// List reads a page of pods, with what says whether a taint evicts them, or of VolumeAttachments, with the nodes that they are for.
func (c *DirectClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts).AsListOptions()
	switch list := list.(type) {
	case *corev1.PodList:
		var page listPage[podItem]
		err := readPage(ctx, c, &page, where{corev1.SchemeGroupVersion, "PodList", "/api/v1/pods", "pods", podPage}, o)
		*list = corev1.PodList{ListMeta: metav1.ListMeta{Continue: page.Metadata.Continue}}
		for i := range page.Items {
			p := &page.Items[i]
			list.Items = append(list.Items, corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: p.Metadata.DeletionTimestamp}, Spec: corev1.PodSpec{Tolerations: p.Spec.Tolerations},
			})
		}
		return err
	case *storagev1.VolumeAttachmentList:
		var page listPage[volumeItem]
		err := readPage(ctx, c, &page, where{storagev1.SchemeGroupVersion, "VolumeAttachmentList", "/apis/storage.k8s.io/v1/volumeattachments", "volumeattachments", volumePage}, o)
		*list = storagev1.VolumeAttachmentList{ListMeta: metav1.ListMeta{Continue: page.Metadata.Continue}}
		for i := range page.Items {
			list.Items = append(list.Items, storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{NodeName: page.Items[i].Spec.NodeName}})
		}
		return err
	}
	return fmt.Errorf("listing into a %T: %w", list, errOther)
}

// listPage is a page of a list, with what remediators use of its items.
type listPage[T any] struct {
	metav1.TypeMeta `json:",inline"`

	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []T `json:"items"`
}

type podItem struct {
	Metadata struct {
		DeletionTimestamp *metav1.Time `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Tolerations []corev1.Toleration `json:"tolerations"`
	} `json:"spec"`
}

type volumeItem struct {
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

// where says where a list is read, and what it is.
type where struct {
	version              schema.GroupVersion
	kind, path, resource string
	limit                int64
}

// readPage reads a page of a list. If it is too large, it reads a smaller one.
func readPage[T any](ctx context.Context, c *DirectClient, into *listPage[T], at where, o *metav1.ListOptions) error {
	options := *o
	for options.Limit = at.limit; ; options.Limit /= 2 {
		body, err := c.do(ctx, "list", at.resource, func(api *apiClient) *rest.Request {
			r := api.RESTClient.Get().AbsPath(at.path)
			choose(r, &options)
			return r
		})
		if bound, is := errors.AsType[*boundError](err); is && bound.name == "bytes" && options.Limit > 1 {
			continue
		}
		if err != nil {
			return err
		}
		return decodePage(body, c, into, at, options)
	}
}

// decodePage decodes a page. Each page must have items, at most as many as requested, so that a list ends.
func decodePage[T any](body []byte, c *DirectClient, into *listPage[T], at where, o metav1.ListOptions) error {
	decoding.Lock()
	defer decoding.Unlock()
	err := json.Unmarshal(body, into)
	next, items := into.Metadata.Continue, int64(len(into.Items))
	endless := next != "" && (items == 0 || len(next) > tokenBytes || next == o.Continue)
	if err != nil || !isOf(into.TypeMeta, at.version, at.kind) || items > o.Limit || endless {
		*into = listPage[T]{}
		return c.unusable()
	}
	return nil
}

// Patch patches a node, which then has the content of the answer.
func (c *DirectClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	n, is := obj.(*corev1.Node)
	if !is {
		return fmt.Errorf("patching a %T: %w", obj, errOther)
	}
	body, err := patch.Data(obj)
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	answer, err := c.do(ctx, "patch", "nodes", func(api *apiClient) *rest.Request {
		return api.RESTClient.Patch(patch.Type()).Resource("nodes").Name(n.Name).Body(body)
	})
	if err != nil {
		return err
	}
	return c.decodeNode(answer, n.Name, n)
}

// Delete deletes a node.
func (c *DirectClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts).AsDeleteOptions()
	options.TypeMeta = metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}
	body, err := json.Marshal(options)
	if err != nil {
		return fmt.Errorf("encoding a deletion: %w", err)
	}
	_, err = c.do(ctx, "delete", "nodes", func(api *apiClient) *rest.Request {
		return api.RESTClient.Verb(http.MethodDelete).Resource("nodes").Name(obj.GetName()).SetHeader("Content-Type", "application/json").Body(body)
	})
	return err
}
