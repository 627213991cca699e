package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Server is a fake API server for remedies. Every object has a finalizer, so a deleted object stays, and is being
// deleted.
type Server struct {
	client.WithWatch // for the methods that remedies don't call

	objects map[string]*unstructured.Unstructured
	// kinds are the kinds of Go types whose objects don't say their kind.
	kinds   map[string]schema.GroupVersionKind
	created int
	failure error
}

// NewServer returns a server that has these objects.
func NewServer(objects ...*unstructured.Unstructured) *Server {
	s := &Server{objects: map[string]*unstructured.Unstructured{}, kinds: map[string]schema.GroupVersionKind{}}
	for _, u := range objects {
		s.objects[s.key(u)] = u.DeepCopy()
	}
	return s
}

// RegisterKind sets the kind of the objects of a Go type that don't say it.
func (s *Server) RegisterKind(kind schema.GroupVersionKind, of client.Object) {
	s.kinds[fmt.Sprintf("%T", of)] = kind
}

func (s *Server) kindOf(o client.Object) schema.GroupVersionKind {
	if said := o.GetObjectKind().GroupVersionKind(); !said.Empty() {
		return said
	}
	return s.kinds[fmt.Sprintf("%T", o)]
}

func (s *Server) key(o client.Object) string {
	return s.kindOf(o).String() + " " + o.GetNamespace() + "/" + o.GetName()
}

// decodeInto decodes an object of the server.
func decodeInto(have *unstructured.Unstructured, into client.Object) error {
	if u, whole := into.(*unstructured.Unstructured); whole {
		u.Object = have.DeepCopy().Object
		return nil
	}
	part, decodes := into.(json.Unmarshaler)
	metadata, alone := into.(*metav1.PartialObjectMetadata)
	body, err := have.MarshalJSON()
	switch {
	case err != nil:
	case alone:
		err = json.Unmarshal(body, metadata)
	case decodes:
		err = part.UnmarshalJSON(body)
	default:
		return fmt.Errorf("no remedy reads into %T", into)
	}
	if err != nil {
		return fmt.Errorf("decoding into %T: %w", into, err)
	}
	return nil
}

// dump returns all objects as text.
func (s *Server) dump(t *testing.T) string {
	t.Helper()
	body, err := json.Marshal(s.objects)
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	return string(body)
}

// Object returns the object of a kind and a name, or nil.
func (s *Server) Object(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return s.objects[s.key(u)]
}

// Put stores an object, in the place of an earlier one.
func (s *Server) Put(u *unstructured.Unstructured) { s.objects[s.key(u)] = u.DeepCopy() }

// Remove removes an object at once.
func (s *Server) Remove(u *unstructured.Unstructured) { delete(s.objects, s.key(u)) }

func (s *Server) resourceOf(o client.Object) schema.GroupResource {
	kind := s.kindOf(o)
	return schema.GroupResource{Group: kind.Group, Resource: kind.Kind}
}

// Get reads an object.
func (s *Server) Get(_ context.Context, at client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	into.SetNamespace(at.Namespace)
	into.SetName(at.Name)
	have := s.objects[s.key(into)]
	switch {
	case s.failure != nil:
		return s.failure
	case have == nil:
		return apierrors.NewNotFound(s.resourceOf(into), at.Name)
	}
	return decodeInto(have, into)
}

// Create creates an object unless there is one of its name.
func (s *Server) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	u, whole := o.(*unstructured.Unstructured)
	switch {
	case s.failure != nil:
		return s.failure
	case !whole:
		return fmt.Errorf("no remedy creates %T", o)
	case s.objects[s.key(o)] != nil:
		return apierrors.NewAlreadyExists(s.resourceOf(o), o.GetName())
	}
	s.created++
	u.SetUID(types.UID("made-" + strconv.Itoa(s.created)))
	u.SetResourceVersion("1")
	s.Put(u)
	return nil
}

// found is the object that a write is about, where nothing that the write insists on is otherwise.
func (s *Server) found(o client.Object, uid, revision string) (*unstructured.Unstructured, error) {
	have := s.objects[s.key(o)]
	switch {
	case s.failure != nil:
		return nil, s.failure
	case have == nil:
		return nil, apierrors.NewNotFound(s.resourceOf(o), o.GetName())
	case uid != "" && uid != string(have.GetUID()), revision != "" && revision != have.GetResourceVersion():
		return nil, apierrors.NewConflict(s.resourceOf(o), o.GetName(), errors.New("the precondition does not hold"))
	}
	return have, nil
}

func bumpRevision(u *unstructured.Unstructured) {
	u.SetResourceVersion(u.GetResourceVersion() + "0")
}

// Delete sets the deletion timestamp of an object.
func (s *Server) Delete(_ context.Context, o client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	uid, revision := "", ""
	if only := options.Preconditions; only != nil {
		if only.UID != nil {
			uid = string(*only.UID)
		}
		if only.ResourceVersion != nil {
			revision = *only.ResourceVersion
		}
	}
	have, err := s.found(o, uid, revision)
	if err == nil && have.GetDeletionTimestamp() == nil {
		at := metav1.Unix(1785758400, 0)
		have.SetDeletionTimestamp(&at)
		bumpRevision(have)
	}
	return err
}

// Patch merges annotations into an object.
func (s *Server) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(o)
	var body struct {
		Metadata struct {
			UID             string            `json:"uid"`
			ResourceVersion string            `json:"resourceVersion"`
			Annotations     map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := errors.Join(err, json.Unmarshal(data, &body)); err != nil || patch.Type() != types.MergePatchType {
		return fmt.Errorf("no remedy patches by the %s %s: %w", patch.Type(), data, err)
	}
	have, err := s.found(o, body.Metadata.UID, body.Metadata.ResourceVersion)
	if err != nil {
		return err
	}
	all := have.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	before := maps.Clone(all)
	maps.Copy(all, body.Metadata.Annotations)
	if !maps.Equal(before, all) {
		have.SetAnnotations(all)
		bumpRevision(have)
	}
	return nil
}

// Status returns the writer of statuses.
func (s *Server) Status() client.SubResourceWriter { return statusWriter{s: s} }

// statusWriter patches statuses by JSON patches that have a revision as their precondition.
type statusWriter struct {
	client.SubResourceWriter // for the methods that remedies don't call

	s *Server
}

// Patch patches an object. A patch whose path does not exist is invalid, whatever its preconditions.
func (w statusWriter) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	data, err := patch.Data(o)
	steps, unreadable := jsonpatch.DecodePatch(data)
	if err := errors.Join(err, unreadable); err != nil || patch.Type() != types.JSONPatchType {
		return fmt.Errorf("no remedy patches a status by the %s %s: %w", patch.Type(), data, err)
	}
	have, err := w.s.found(o, "", "")
	if err != nil {
		return err
	}
	before, err := have.MarshalJSON()
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	after, err := steps.Apply(before)
	if err != nil {
		return apierrors.NewInvalid(have.GroupVersionKind().GroupKind(), have.GetName(), nil)
	}
	fresh := &unstructured.Unstructured{}
	if err := fresh.UnmarshalJSON(after); err != nil {
		return fmt.Errorf("decoding: %w", err)
	}
	if _, err := w.s.found(o, "", fresh.GetResourceVersion()); err != nil {
		return err
	}
	bumpRevision(fresh)
	w.s.Put(fresh)
	return decodeInto(fresh, o)
}

// Apply fails. It is a method of two of the server's interfaces.
func (*Server) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errors.New("no remedy applies")
}
