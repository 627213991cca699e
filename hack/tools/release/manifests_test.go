package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestManifestsNameTheImageByItsDigest(t *testing.T) {
	out := built(t, "--image", "registry.example:5000/infra/fettle")
	digest, err := unpacked(t, out).Digest()
	if err != nil {
		t.Fatalf("computing the digest: %v", err)
	}
	objects := string(read(t, out, install))
	want := "image: registry.example:5000/infra/fettle:v1.2.3@" + digest.String() + "\n"
	if !strings.Contains(objects, want) || strings.Count(objects, "\n        image: ") != 1 {
		t.Errorf("install.yaml does not have the line %q once", want)
	}
	for _, kind := range []string{"Namespace", "CustomResourceDefinition", "ClusterRole", "Deployment", "ValidatingAdmissionPolicy"} {
		if !strings.Contains(objects, "\nkind: "+kind+"\n") {
			t.Errorf("install.yaml has no %s", kind)
		}
	}
	if agents := string(read(t, out, "install-selffence.yaml")); strings.Count(agents, want) != 1 || strings.Count(agents, "\n        image: ") != 1 {
		t.Errorf("install-selffence.yaml does not have the line %q once", want)
	}
	if got := string(read(t, out, "fettle-image.digest")); got != digest.String()+"\n" {
		t.Errorf("the digest is told to be %q, and is %s", got, digest)
	}
	definition := "machine.openshift.io_machinehealthchecks.yaml"
	if !bytes.Equal(read(t, out, "crd-"+definition), read(t, source, "config/crd", definition)) {
		t.Errorf("crd-%s is not the definition in config/crd", definition)
	}
}

func TestPartsOfAnInstallation(t *testing.T) {
	out := built(t)
	for _, name := range []string{"install-monitoring.yaml", "install-openshift.yaml"} {
		if !bytes.Contains(read(t, out, name), []byte("\nkind: ")) {
			t.Errorf("%s has no object", name)
		}
	}
	config := t.TempDir()
	for name, text := range map[string]string{
		"kustomization.yaml":         "resources: [deployment.yaml, part]",
		"deployment.yaml":            "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {template: {spec: {containers: [{image: a/fettle}]}}}}",
		"part/kustomization.yaml":    "resources: [role.yaml]",
		"part/role.yaml":             "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: part}}",
		"its_own/kustomization.yaml": "resources: [role.yaml]",
		"its_own/role.yaml":          "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: its-own}}",
	} {
		path := filepath.Join(config, "config", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatalf("writing: %v", err)
		}
	}
	r := release{source: config}
	m, err := r.build()
	if err != nil {
		t.Fatalf("building the kustomizations: %v", err)
	}
	if got := slices.Sorted(maps.Keys(m.files)); !slices.Equal(got, []string{"install-its-own.yaml", "install.yaml"}) || m.image != "a/fettle" {
		t.Errorf("it builds %v of the image %s", got, m.image)
	}
}

func TestManifestsKeepTheNameOfTheImage(t *testing.T) {
	r := release{version: "v1.2.3", source: source}
	m, err := r.build()
	if err != nil {
		t.Fatalf("building the kustomizations: %v", err)
	}
	if !strings.Contains(string(read(t, built(t), "install.yaml")), " image: "+m.image+":v1.2.3@sha256:") {
		t.Errorf("install.yaml does not name %s", m.image)
	}
}

func TestWithoutTag(t *testing.T) {
	for image, want := range map[string]string{
		"fettle": "fettle", "a/fettle:v1": "a/fettle", "host:5000/fettle": "host:5000/fettle", "host:5000/fettle:v1": "host:5000/fettle",
		"a/fettle@sha256:00": "a/fettle", "a/fettle:v1@sha256:00": "a/fettle",
	} {
		if got := withoutTag(image); got != want {
			t.Errorf("of %s it leaves %s, want %s", image, got, want)
		}
	}
}
