package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// epoch is the time of everything that must have one.
func epoch() time.Time { return time.Unix(0, 0).UTC() }

// writeImage writes the image of all architectures as an archive of an OCI layout, and returns the digest of its index.
func (r *release) writeImage(name string) (string, error) {
	index, err := r.index()
	if err != nil {
		return "", err
	}
	digest, err := index.Digest()
	if err != nil {
		return "", fmt.Errorf("computing the digest of the image: %w", err)
	}
	folder, err := os.MkdirTemp("", "fettle-image-")
	if err != nil {
		return "", fmt.Errorf("making a folder for the image: %w", err)
	}
	defer os.RemoveAll(folder) //nolint:errcheck // a folder for temporary files
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return "", fmt.Errorf("writing the image: %w", err)
	}
	reference := name + ":" + r.version
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": reference, // podman and skopeo
		"io.containerd.image.name":          reference, // containerd and docker
	}))
	if err != nil {
		return "", fmt.Errorf("writing the image: %w", err)
	}
	if err := r.writeFile("fettle-image.digest", []byte(digest.String()+"\n")); err != nil {
		return "", err
	}
	return digest.String(), r.archive(folder)
}

func (r *release) index() (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range r.architectures {
		image, err := r.imageOf(architecture)
		if err != nil {
			return nil, err
		}
		platform := v1.Platform{OS: "linux", Architecture: architecture}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	return index, nil
}

// imageOf returns the image of one architecture. It has no base: each layer holds one static binary.
func (r *release) imageOf(architecture string) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	config := r.config(architecture)
	image, err := mutate.ConfigFile(image, &config)
	if err != nil {
		return nil, fmt.Errorf("configuring the image: %w", err)
	}
	for _, program := range programs {
		if image, err = r.add(image, program, architecture); err != nil {
			return nil, err
		}
	}
	return image, nil
}

// add returns an image with another layer, which holds a program.
func (r *release) add(image v1.Image, program, architecture string) (v1.Image, error) {
	content, err := os.ReadFile(filepath.Join(r.out, binary(program, architecture)))
	if err != nil {
		return nil, fmt.Errorf("reading the binary: %w", err)
	}
	packed, err := pack(program, content)
	if err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil }
	layer, err := tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("packing the layer of the image: %w", err)
	}
	history := v1.History{Created: v1.Time{Time: epoch()}, CreatedBy: "hack/release"}
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: history})
	if err != nil {
		return nil, fmt.Errorf("adding the layer to the image: %w", err)
	}
	return image, nil
}

func (r *release) config(architecture string) v1.ConfigFile {
	return v1.ConfigFile{
		OS: "linux", Architecture: architecture, Created: v1.Time{Time: epoch()},
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{}},
		Config: v1.Config{
			// A number, so that a kubelet can see that it is not root.
			User: "65532:65532", Entrypoint: []string{"/fettle"}, Cmd: []string{"controller"},
			Labels: map[string]string{
				"org.opencontainers.image.title":    "fettle",
				"org.opencontainers.image.version":  r.version,
				"org.opencontainers.image.licenses": "Apache-2.0",
				"org.opencontainers.image.source":   "https://github.com/fettle-io/fettle",
			},
		},
	}
}

// pack returns a tar archive with one binary alone.
func pack(name string, program []byte) ([]byte, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	if err := add(w, name, 0o555, program); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("packing: %w", err)
	}
	return packed.Bytes(), nil
}

// add adds a file to an archive with nothing in its header that differs between machines.
func add(w *tar.Writer, name string, mode int64, content []byte) error {
	header := tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: epoch(), Format: tar.FormatUSTAR}
	if err := w.WriteHeader(&header); err != nil {
		return fmt.Errorf("packing %s: %w", name, err)
	}
	if _, err := w.Write(content); err != nil {
		return fmt.Errorf("packing %s: %w", name, err)
	}
	return nil
}

// archive packs a layout, in the order of the names of its files.
func (r *release) archive(folder string) error {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return fmt.Errorf("reading the image: %w", err)
		}
		return add(w, name, 0o644, content)
	})
	if err != nil {
		return fmt.Errorf("packing the image: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("packing the image: %w", err)
	}
	return r.writeFile("fettle-image.tar", packed.Bytes())
}
