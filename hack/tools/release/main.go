package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// release has the parts of a release, and the folder for it.
type release struct {
	// version is the tag of the release.
	version string
	// image is the name of the image, without a tag. If empty, the manifests keep the name that they have.
	image string
	// source is the root of the repository.
	source string
	// out is the folder that holds the binaries already.
	out string
	// architectures are those of the binaries.
	architectures []string
}

var errUsage = errors.New("usage: release --version VERSION --source FOLDER --out FOLDER [--image NAME] and the architectures")

func run(args []string) error {
	var r release
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.version, "version", "", "the tag of the release")
	flags.StringVar(&r.image, "image", "", "the name of the image, without a tag; without it the manifests keep the name that they have")
	flags.StringVar(&r.source, "source", "", "the root of the repository")
	flags.StringVar(&r.out, "out", "", "the folder that holds the binaries, where the rest is written")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading the flags: %w", err)
	}
	r.architectures = flags.Args()
	if r.version == "" || r.source == "" || r.out == "" || len(r.architectures) == 0 {
		return errUsage
	}
	return r.write()
}

// write writes all parts. The manifests name the image by its digest, and the checksums cover everything.
func (r *release) write() error {
	manifests, err := r.build()
	if err != nil {
		return err
	}
	digest, err := r.writeImage(manifests.image)
	if err != nil {
		return err
	}
	if err := r.writeManifests(manifests, digest); err != nil {
		return err
	}
	for _, architecture := range r.architectures {
		for _, program := range programs {
			if err := r.writeBill(binary(program, architecture)); err != nil {
				return err
			}
		}
	}
	return writeSums(r.out)
}

// programs are the commands of the image, by their names in it.
var programs = [...]string{"fettle", "fettle-agent"}

// binary is the name of the binary of a program for an architecture, as hack/release has built it.
func binary(program, architecture string) string { return program + "-linux-" + architecture }
