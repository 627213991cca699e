package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/filters/imagetag"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/resid"
)

const (
	kustomization = "kustomization.yaml"
	install       = "install.yaml"
)

// manifests are what an administrator applies.
type manifests struct {
	// files are the kustomizations of config/, by the names of the files that they become.
	files map[string]resmap.ResMap
	// image is the name of the image, without a tag or a digest.
	image string
}

var errNoImage = errors.New("the kustomization in config has no Deployment with an image")

// build builds config/, and each folder in it that is a kustomization of its own and no part of that.
func (r *release) build() (*manifests, error) {
	folders, err := r.folders()
	if err != nil {
		return nil, err
	}
	m := &manifests{files: map[string]resmap.ResMap{}}
	for file, folder := range folders {
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
		if err != nil {
			return nil, fmt.Errorf("building the kustomization in %s: %w", folder, err)
		}
		m.files[file] = built
	}
	current, err := imageOf(m.files[install])
	if err != nil {
		return nil, err
	}
	if m.image = current; r.image != "" {
		m.image = r.image
	}
	return m, nil
}

// folders returns the folders of the kustomizations, by the names of the files that they become.
func (r *release) folders() (map[string]string, error) {
	config := filepath.Join(r.source, "config")
	text, err := os.ReadFile(filepath.Join(config, kustomization))
	if err != nil {
		return nil, fmt.Errorf("reading the kustomization: %w", err)
	}
	var whole types.Kustomization
	if err := whole.Unmarshal(text); err != nil {
		return nil, fmt.Errorf("reading the kustomization: %w", err)
	}
	parts, err := filepath.Glob(filepath.Join(config, "*", kustomization))
	if err != nil {
		return nil, fmt.Errorf("looking for kustomizations: %w", err)
	}
	folders := map[string]string{install: config}
	for _, part := range parts {
		folder := filepath.Dir(part)
		name := filepath.Base(folder)
		if !slices.Contains(whole.Resources, name) {
			folders["install-"+strings.ReplaceAll(name, "_", "-")+".yaml"] = folder
		}
	}
	return folders, nil
}

// imageOf returns the name of the image that the Deployment runs, without a tag or a digest.
func imageOf(all resmap.ResMap) (string, error) {
	for _, resource := range all.Resources() {
		if resource.GetKind() != "Deployment" {
			continue
		}
		containers, err := resource.GetSlice("spec.template.spec.containers")
		if err != nil {
			return "", fmt.Errorf("reading the containers of the Deployment: %w", err)
		}
		for _, container := range containers {
			fields, _ := container.(map[string]any)
			if image, _ := fields["image"].(string); image != "" {
				return withoutTag(image), nil
			}
		}
	}
	return "", errNoImage
}

// withoutTag cuts the tag and the digest off an image. A colon before the last slash is that of a port.
func withoutTag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		return image[:i]
	}
	return image
}

// writeManifests writes the kustomizations, with the image by its digest, and the definitions that are not part of one.
func (r *release) writeManifests(m *manifests, digest string) error {
	current, err := imageOf(m.files[install])
	if err != nil {
		return err
	}
	const path = "spec/template/spec/containers[]/image"
	filter := imagetag.Filter{
		ImageTag: types.Image{Name: current, NewName: m.image, NewTag: r.version, Digest: digest},
		FsSlice:  types.FsSlice{{Gvk: resid.Gvk{Kind: "Deployment"}, Path: path}, {Gvk: resid.Gvk{Kind: "DaemonSet"}, Path: path}},
	}
	for file, objects := range m.files {
		if err := objects.ApplyFilter(filter); err != nil {
			return fmt.Errorf("naming the image in the manifests: %w", err)
		}
		text, err := objects.AsYaml()
		if err != nil {
			return fmt.Errorf("writing %s: %w", file, err)
		}
		if err := r.writeFile(file, text); err != nil {
			return err
		}
	}
	return r.writeDefinitions()
}

// writeDefinitions copies the definitions that a cluster may have from others: those of groups that are not Fettle's.
func (r *release) writeDefinitions() error {
	found, err := filepath.Glob(filepath.Join(r.source, "config", "crd", "*.yaml"))
	if err != nil {
		return fmt.Errorf("looking for definitions: %w", err)
	}
	for _, path := range found {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "fettle.io_") || name == kustomization {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading a definition: %w", err)
		}
		if err := r.writeFile("crd-"+name, text); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) writeFile(name string, content []byte) error {
	if err := os.WriteFile(filepath.Join(r.out, name), content, 0o644); err != nil { //nolint:gosec // anyone may read it
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}
