package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeBill writes the bill of materials of a binary in CycloneDX's JSON. The Go linker records the modules of each
// binary in it, so the bill lists these modules and not the contents of a go.mod file.
func (r *release) writeBill(name string) error {
	program, err := os.ReadFile(filepath.Join(r.out, name))
	if err != nil {
		return fmt.Errorf("reading the binary: %w", err)
	}
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("reading what %s is made of: %w", name, err)
	}
	text, err := encode(r.bill(info, program))
	if err != nil {
		return err
	}
	return r.writeFile(name+".cdx.json", text)
}

// bill returns the bill of materials. It has no serial number and no time, which are optional and differ each time.
func (r *release) bill(info *debug.BuildInfo, program []byte) *cdx.BOM {
	sum := sha256.Sum256(program)
	subject := component(cdx.ComponentTypeApplication, info.Main.Path, r.version)
	subject.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	parts := []cdx.Component{component(cdx.ComponentTypeLibrary, "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		part := component(cdx.ComponentTypeLibrary, module.Path, module.Version)
		if hash, is := moduleHash(module.Sum); is {
			part.Hashes = &[]cdx.Hash{hash}
		}
		parts = append(parts, part)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &subject}
	bom.Components = &parts
	return bom
}

func component(kind cdx.ComponentType, path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{BOMRef: url, Type: kind, Name: path, Version: version, PackageURL: url}
}

// moduleHash converts a sum of go.sum to the form of CycloneDX. Tools for Go modules write it so.
func moduleHash(sum string) (cdx.Hash, bool) {
	encoded, is := strings.CutPrefix(sum, "h1:")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !is || err != nil {
		return cdx.Hash{}, false
	}
	return cdx.Hash{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}, true
}

func encode(bom *cdx.BOM) ([]byte, error) {
	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("encoding the bill of materials: %w", err)
	}
	return text.Bytes(), nil
}
