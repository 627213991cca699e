package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const source = "../../.."

// built returns the folder of a release whose binaries are this test, for two architectures.
func built(t *testing.T, flags ...string) string {
	t.Helper()
	out := t.TempDir()
	for _, architecture := range []string{"amd64", "arm64"} {
		for _, program := range programs {
			if err := os.WriteFile(filepath.Join(out, binary(program, architecture)), content(t, program), 0o755); err != nil {
				t.Fatalf("writing a binary: %v", err)
			}
		}
	}
	args := append([]string{"--version", "v1.2.3", "--source", source, "--out", out}, flags...)
	if err := run(append(args, "amd64", "arm64")); err != nil {
		t.Fatalf("releasing: %v", err)
	}
	return out
}

// content is that of the binary of a program: this test, and its name behind that.
func content(t *testing.T, program string) []byte { t.Helper(); return append(self(t), program...) }

func self(t *testing.T) []byte {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatalf("finding this test: %v", err)
	}
	return read(t, path)
}

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatalf("reading: %v", err)
	}
	return content
}

// unpacked returns the index of the image of a release.
func unpacked(t *testing.T, out string) v1.ImageIndex {
	t.Helper()
	folder := t.TempDir()
	r := tar.NewReader(bytes.NewReader(read(t, out, "fettle-image.tar")))
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || !header.ModTime.Equal(time.Unix(0, 0)) {
			t.Fatalf("%s has the time %v, and the error %v", header.Name, header.ModTime, err)
		}
		path := filepath.Join(folder, filepath.FromSlash(header.Name))
		content, err := io.ReadAll(r)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			t.Fatalf("unpacking: %v", err)
		}
	}
	outer, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatalf("reading the layout: %v", err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("the layout has %+v, %v; want one index", manifest, err)
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatalf("reading the index: %v", err)
	}
	return index
}

func TestTheSameReleaseTwice(t *testing.T) {
	first := built(t)
	second := built(t)
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(second, binary("fettle", "amd64")), later, later); err != nil {
		t.Fatalf("changing the time of a binary: %v", err)
	}
	if err := run([]string{"--version", "v1.2.3", "--source", source, "--out", second, "amd64", "arm64"}); err != nil {
		t.Fatalf("releasing again, over what is there: %v", err)
	}
	if a, b := read(t, first, sums), read(t, second, sums); !bytes.Equal(a, b) {
		t.Errorf("two releases of the same differ:\n%s\n%s", a, b)
	}
}

func TestChecksums(t *testing.T) {
	out := built(t)
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatalf("listing: %v", err)
	}
	var want strings.Builder
	for _, entry := range entries {
		if entry.Name() != sums {
			fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256(read(t, out, entry.Name())), entry.Name())
		}
	}
	if got := string(read(t, out, sums)); got != want.String() || strings.Count(got, "\n") < 8 {
		t.Errorf("the checksums are\n%s\nwant\n%s", got, want.String())
	}
}

func TestTheImage(t *testing.T) {
	index := unpacked(t, built(t))
	if err := validate.Index(index); err != nil {
		t.Errorf("the image is not valid: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || manifest.MediaType != types.OCIImageIndex || len(manifest.Manifests) != 2 {
		t.Fatalf("the index is %+v, %v; want an OCI index of two images", manifest, err)
	}
	for i, architecture := range []string{"amd64", "arm64"} {
		if platform := manifest.Manifests[i].Platform; platform == nil || platform.String() != "linux/"+architecture {
			t.Errorf("image %d is for %v", i, platform)
		}
		image, err := index.Image(manifest.Manifests[i].Digest)
		if err != nil {
			t.Fatalf("reading an image: %v", err)
		}
		t.Run(architecture, func(t *testing.T) { checkImage(t, image, architecture) })
	}
}

// checkImage checks that an image holds the programs and nothing else, and runs the first one as a user who is not root.
func checkImage(t *testing.T, image v1.Image, architecture string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatalf("reading the configuration: %v", err)
	}
	if config.Architecture != architecture || config.OS != "linux" || config.Config.User != "65532:65532" ||
		!slices.Equal(config.Config.Entrypoint, []string{"/fettle"}) || !slices.Equal(config.Config.Cmd, []string{"controller"}) ||
		!config.Created.Equal(time.Unix(0, 0)) || config.Config.Labels["org.opencontainers.image.version"] != "v1.2.3" {
		t.Errorf("the configuration is %+v", config)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != len(programs) {
		t.Fatalf("it has %d layers, %v; want one of each program", len(layers), err)
	}
	for i, name := range programs {
		checkLayer(t, layers[i], name)
	}
}

// checkLayer checks that a layer holds a program and nothing else.
func checkLayer(t *testing.T, layer v1.Layer, name string) {
	t.Helper()
	packed, err := layer.Uncompressed()
	if err != nil {
		t.Fatalf("unpacking the layer: %v", err)
	}
	defer packed.Close()
	files := tar.NewReader(packed)
	header, err := files.Next()
	if err != nil || header.Name != name || header.Mode != 0o555 || header.Uid != 0 || !header.ModTime.Equal(time.Unix(0, 0)) {
		t.Fatalf("the layer begins with %+v, %v", header, err)
	}
	if program, err := io.ReadAll(files); err != nil || !bytes.Equal(program, content(t, name)) {
		t.Errorf("the binary in the image is not the released one (%v)", err)
	}
	if header, err := files.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("the layer goes on with %+v, %v", header, err)
	}
}

func TestTheBillListsEveryModule(t *testing.T) {
	out := built(t)
	for _, program := range programs {
		t.Run(program, func(t *testing.T) { checkBill(t, program, read(t, out, binary(program, "amd64")+".cdx.json")) })
	}
}

// checkBill checks the bill of materials of a program.
func checkBill(t *testing.T, program string, text []byte) {
	t.Helper()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatalf("decoding: %v", err)
	}
	if bom.SerialNumber != "" || bom.Metadata.Timestamp != "" {
		t.Errorf("it has the serial number %q and the time %q, which differ each time", bom.SerialNumber, bom.Metadata.Timestamp)
	}
	subject := bom.Metadata.Component
	if subject.Version != "v1.2.3" || (*subject.Hashes)[0].Value != fmt.Sprintf("%x", sha256.Sum256(content(t, program))) {
		t.Errorf("it is about %+v", subject)
	}
	info, err := buildinfo.Read(bytes.NewReader(self(t)))
	if err != nil {
		t.Fatalf("reading what this test is made of: %v", err)
	}
	listed := map[string]cdx.Component{}
	for _, part := range *bom.Components {
		listed[part.PackageURL] = part
	}
	for _, module := range info.Deps {
		if part := listed["pkg:golang/"+module.Path+"@"+module.Version]; part.Hashes == nil || (*part.Hashes)[0].Value == "" {
			t.Errorf("%s %s is not listed, or without a hash: %+v", module.Path, module.Version, part)
		}
	}
	if _, is := listed["pkg:golang/std@"+strings.TrimPrefix(info.GoVersion, "go")]; !is || len(listed) != len(info.Deps)+1 {
		t.Errorf("it lists %d components for %d modules and the standard library (listed: %t)", len(listed), len(info.Deps), is)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"amd64"}, {"--version", "v1", "--source", source, "--out", t.TempDir()}} {
		if err := run(args); !errors.Is(err, errUsage) {
			t.Errorf("%v gives %v", args, err)
		}
	}
	if err := run([]string{"--version", "v1", "--source", source, "--out", t.TempDir(), "amd64"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a binary it gives %v", err)
	}
}
