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
)

func (s *Stage) applyDirs(ctx context.Context, dirs ...string) error {
	var objects []*unstructured.Unstructured
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(s.Config, dir, "*.yaml"))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("no manifests in %s", filepath.Join(s.Config, dir))
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("reading a manifest: %w", err)
			}
			decoded, err := Decode(text)
			if err != nil {
				return fmt.Errorf("reading %s: %w", file, err)
			}
			objects = append(objects, decoded...)
		}
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	return s.Apply(ctx, objects...)
}

func rank(u *unstructured.Unstructured) int {
	if u.GetKind() == "Namespace" {
		return 0
	}
	return 1
}

// Apply creates objects that don't exist, and waits for the kinds of those that are just being defined.
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

// Decode gives the objects of a YAML document stream.
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
