package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// How many requests are sent at a time: to make and break the nodes, and for heartbeats.
const (
	makers = 32
	hearts = 16
)

// kubelets are the kubelets of all nodes, on one connection.
type kubelets struct {
	api rest.Interface
	// bare has new nodes name no machine.
	bare bool
}

func newKubelets(admin *rest.Config) (kubelets, error) {
	api, err := newSender(admin, "kubelets", runtime.ContentTypeProtobuf)
	return kubelets{api: api}, err
}

// newSender returns a client that sends and receives objects of any kind in one encoding.
func newSender(admin *rest.Config, name, contentType string) (rest.Interface, error) {
	config := rest.CopyConfig(admin)
	config.ContentType, config.AcceptContentTypes = contentType, contentType
	config.UserAgent = "fettle-bench/" + name
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the client of %s: %w", name, err)
	}
	return c.CoreV1().RESTClient(), nil
}

// register makes a node, and sends the first heartbeat, after which its managed fields have their final size.
func (k kubelets) register(ctx context.Context, i int) error {
	n := node(i, time.Now())
	if k.bare {
		delete(n.Annotations, machineAnnotation)
	}
	return k.join(ctx, i, n)
}

func (k kubelets) join(ctx context.Context, i int, n *corev1.Node) error {
	err := patiently(func() error {
		err := k.api.Post().Resource("nodes").VersionedParams(&metav1.CreateOptions{FieldManager: "kubelet"}, metav1.ParameterCodec).
			Body(n).Do(ctx).Error()
		return client.IgnoreAlreadyExists(err)
	})
	if err != nil {
		return fmt.Errorf("creating node %s: %w", n.Name, err)
	}
	return patiently(func() error { return k.beat(ctx, i) })
}

func (k kubelets) beat(ctx context.Context, i int) error {
	patch, err := heartbeat(time.Now())
	if err != nil {
		return err
	}
	return k.patch(ctx, i, patch)
}

// fail makes a node not Ready as of now, and returns that instant.
func (k kubelets) fail(ctx context.Context, i int) (time.Time, error) {
	now := time.Now().Truncate(time.Second)
	patch, err := failure(now)
	if err != nil {
		return now, err
	}
	return now, k.patch(ctx, i, patch)
}

func (k kubelets) patch(ctx context.Context, i int, patch []byte) error {
	err := k.api.Patch(types.StrategicMergePatchType).Resource("nodes").Name(nodeName(i)).SubResource("status").
		VersionedParams(&metav1.PatchOptions{FieldManager: "kubelet"}, metav1.ParameterCodec).Body(patch).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("patching the status of node %s: %w", nodeName(i), err)
	}
	return nil
}

// sizeOf returns the size of a node on the wire for its watchers.
func (k kubelets) sizeOf(ctx context.Context, i int) (int, error) {
	var n corev1.Node
	if err := k.api.Get().Resource("nodes").Name(nodeName(i)).Do(ctx).Into(&n); err != nil {
		return 0, fmt.Errorf("reading node %s: %w", nodeName(i), err)
	}
	return n.Size(), nil
}

// heartbeatStream sends the heartbeats of many nodes, one after the other, at a rate.
type heartbeatStream struct {
	sent atomic.Int64
	stop func() error
}

// startHeartbeats sends the heartbeats of these nodes until the stream is stopped.
func (k kubelets) startHeartbeats(ctx context.Context, nodes []int, perSecond int) *heartbeatStream {
	ctx, cancel := context.WithCancel(ctx)
	p := &heartbeatStream{}
	limiter := rate.NewLimiter(rate.Limit(perSecond), 1)
	var next atomic.Int64
	var group errgroup.Group
	for range hearts {
		group.Go(func() error {
			for limiter.Wait(ctx) == nil {
				i := nodes[int(next.Add(1)-1)%len(nodes)]
				err := k.beat(ctx, i)
				switch {
				case err == nil:
					p.sent.Add(1)
				case ctx.Err() == nil && !overloaded(err):
					return err
				}
			}
			return nil
		})
	}
	p.stop = func() error {
		cancel()
		return group.Wait()
	}
	return p
}

// patiently repeats a call for which the API server was too busy. The sandbox may be while many nodes are made.
func patiently(call func() error) error {
	return retry.OnError(wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 6}, overloaded, call)
}

// overloaded reports whether the API server answered that it is too busy.
func overloaded(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && (answer.Status().Code >= http.StatusInternalServerError || answer.Status().Code == http.StatusTooManyRequests)
}

// inParallel calls for each number below n, some at a time, until one fails.
func inParallel(ctx context.Context, n int, call func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(makers)
	for i := range n {
		group.Go(func() error { return call(ctx, i) })
	}
	return group.Wait()
}
