package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// InstallFettle applies the objects of kubectl apply -k config, without the Deployment: its pods would find no
// scheduler here. It adds missing definitions in config/crd that a user's cluster has from other vendors.
func (s *Stage) InstallFettle(ctx context.Context, definitions ...string) error {
	objects, err := kustomized(s.Config)
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(u *unstructured.Unstructured) bool { return u.GetKind() == "Deployment" })
	for _, name := range definitions {
		text, err := os.ReadFile(filepath.Join(s.Config, "crd", name))
		if err != nil {
			return fmt.Errorf("reading a definition: %w", err)
		}
		definition, err := Decode(text)
		if err != nil {
			return err
		}
		objects = append(objects, definition...)
	}
	return s.Apply(ctx, objects...)
}

// InstallPart applies the objects of kubectl apply -k for a folder in config/ that not every cluster needs, without a DaemonSet.
func (s *Stage) InstallPart(ctx context.Context, folder string) error {
	objects, err := kustomized(filepath.Join(s.Config, folder))
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(u *unstructured.Unstructured) bool { return u.GetKind() == "DaemonSet" })
	return s.Apply(ctx, objects...)
}

func kustomized(folder string) ([]*unstructured.Unstructured, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, fmt.Errorf("building the kustomization in %s: %w", folder, err)
	}
	text, err := built.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("writing the kustomization in %s: %w", folder, err)
	}
	return Decode(text)
}

// Apply creates objects that don't exist, and waits for kinds that are just being defined.
func (s *Stage) Apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	for _, u := range objects {
		var last error
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			last = s.Client.Create(ctx, u)
			return !meta.IsNoMatchError(last) && !apierrors.IsNotFound(last), nil
		})
		if err = errors.Join(err, client.IgnoreAlreadyExists(last)); err != nil {
			return fmt.Errorf("creating %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}

// Decode returns the objects of a YAML stream.
func Decode(text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decoding YAML: %w", err)
		}
		if len(u.Object) > 0 {
			objects = append(objects, u)
		}
	}
}
