package guest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/fettle-io/fettle/test/debian"
)

// QEMU installs QEMU and returns its program.
func QEMU(t *testing.T) string {
	t.Helper()
	const program = "/usr/bin/qemu-system-x86_64"
	if runtime.GOARCH != "amd64" {
		t.Skip("Debian's kernel for amd64 is not in the lists of packages of another architecture")
	}
	debian.Install(t, "qemu-system-x86", program)
	return program
}

// Kernel is an unpacked kernel of Debian.
type Kernel struct {
	// Image is the file that QEMU boots.
	Image string

	files string
}

// UnpackKernel downloads the kernel that a package of Debian depends on, such as linux-image-amd64.
func UnpackKernel(t *testing.T, name string) Kernel {
	t.Helper()
	k := Kernel{files: debian.Unpack(t, debian.Dependency(t, name, "linux-image-"))}
	k.Image = k.only(t, "boot/vmlinuz-*")
	return k
}

// Module returns the content of a module of the kernel.
func (k Kernel) Module(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(k.only(t, "lib/modules/*/kernel/"+name+".ko"))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// only returns the one file that a pattern names.
func (k Kernel) only(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(k.files, filepath.FromSlash(pattern)))
	if err != nil || len(found) != 1 {
		t.Fatalf("the package of the kernel has the files %v for %s, %v", found, pattern, err)
	}
	return found[0]
}

// Initrd writes the file system that a kernel starts with, and returns its file: a program, whose package is named, and other files.
func Initrd(t *testing.T, folder, program string, files map[string][]byte) string {
	t.Helper()
	built := filepath.Join(folder, "init")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", built, program)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the program of the machine: %v\n%s", err, out)
	}
	content, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	pack(&archive, "init", 0o100755, content)
	for name, content := range files {
		pack(&archive, name, 0o100644, content)
	}
	pack(&archive, "TRAILER!!!", 0, nil)
	name := filepath.Join(folder, "initrd")
	if err := os.WriteFile(name, archive.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// pack adds a file to an archive in the format "newc" of cpio: thirteen numbers, the name and the content, each padded to four bytes.
func pack(archive *bytes.Buffer, name string, mode int, content []byte) {
	archive.WriteString("070701")
	for _, number := range [13]int{1: mode, 4: 1, 6: len(content), 11: len(name) + 1} {
		fmt.Fprintf(archive, "%08x", number)
	}
	for _, part := range [][]byte{append([]byte(name), 0), content} {
		archive.Write(part)
		archive.Write(make([]byte, -archive.Len()&3))
	}
}

// Options returns the options of QEMU that all machines have: 256 MiB, no device but those of other options, and a console that is a file.
// The machine ends instead of booting again.
func Options(console string) []string {
	return strings.Fields("-accel tcg -m 256 -display none -nodefaults -no-user-config -no-reboot " +
		"-chardev file,id=console,append=on,path=" + console + " -serial chardev:console")
}
