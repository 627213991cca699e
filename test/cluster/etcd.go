package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Rewrite changes a custom resource in etcd, including fields that the API server lets no client change, such as the
// creation time. Watches deliver the change. Nothing else may write the object meanwhile.
func (c *Cluster) Rewrite(t testing.TB, u *unstructured.Unstructured, change func(object map[string]any)) {
	t.Helper()
	mapping, err := c.RESTMapper().RESTMapping(u.GroupVersionKind().GroupKind(), u.GroupVersionKind().Version)
	if err != nil {
		t.Fatalf("finding the resource of %s: %v", u.GetKind(), err)
	}
	key := []byte("/registry/" + filepath.Join(mapping.Resource.Group, mapping.Resource.Resource, u.GetNamespace(), u.GetName()))
	var found struct{ Kvs []struct{ Value []byte } }
	c.askEtcd(t, "range", map[string][]byte{"key": key}, &found)
	if len(found.Kvs) != 1 {
		t.Fatalf("etcd has %d objects under %s", len(found.Kvs), key)
	}
	var stored map[string]any
	if err := json.Unmarshal(found.Kvs[0].Value, &stored); err != nil {
		t.Fatalf("reading %s in etcd: %v", key, err)
	}
	change(stored)
	value, err := json.Marshal(stored)
	if err != nil {
		t.Fatalf("encoding %s: %v", key, err)
	}
	c.askEtcd(t, "put", map[string][]byte{"key": key, "value": value}, &struct{}{})
}

// askEtcd calls a method of etcd's key-value API, as JSON through its socket.
func (c *Cluster) askEtcd(t testing.TB, method string, question, answer any) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(c.Dir, "run", "client.sock"))
	}}
	body, err := json.Marshal(question)
	if err != nil {
		t.Fatalf("encoding a question to etcd: %v", err)
	}
	request, err := http.NewRequestWithContext(Context(t), http.MethodPost, "http://etcd/v3/kv/"+method, bytes.NewReader(body))
	if err != nil {
		t.Fatalf("preparing a question to etcd: %v", err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err == nil {
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			err = fmt.Errorf("it answers %s", response.Status)
		}
	}
	if err == nil {
		err = json.NewDecoder(response.Body).Decode(answer)
	}
	if err != nil {
		t.Fatalf("asking etcd to %s: %v", method, err)
	}
}
