package watchdog

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

func TestReadClass(t *testing.T) {
	root := fstest.MapFS{
		"sys/dev/char/247:7/identity":           file("iTCO_wdt\n"),
		"sys/dev/char/247:7/nowayout":           file("1\n"),
		"sys/dev/char/247:130/identity":         file("of 130\n"),
		"sys/dev/char/10:1/identity":            file("of 10\n"),
		"sys/class/watchdog/watchdog0/identity": file("Software Watchdog\n"),
		"sys/class/watchdog/watchdog0/nowayout": file("0\n"),
	}
	for _, c := range []struct {
		major, minor uint32
		want         class
	}{
		{247, 7, class{identity: "iTCO_wdt", noWayOut: true}},
		{247, 8, class{}},
		{247, 130, class{identity: "of 130"}},
		{10, 1, class{identity: "of 10"}},
		{10, 130, class{identity: "Software Watchdog"}},
	} {
		if got := readClass(root, unix.Mkdev(c.major, c.minor)); got != c.want {
			t.Errorf("%d:%d is %+v, want %+v", c.major, c.minor, got, c.want)
		}
	}
}

func TestSoftware(t *testing.T) {
	for name, want := range map[string]bool{
		"Software Watchdog":           true,
		"software watchdog":           true,
		"softdog":                     true,
		"UML Hardware Watchdog":       true,
		"":                            true,
		"iTCO_wdt":                    false,
		"i6300ESB timer":              false,
		"IPMI":                        false,
		"HPE iLO2+ HW Watchdog Timer": false,
		"SBSA Generic Watchdog":       false,
		"wdat_wdt":                    false,
	} {
		if got := software(name); got != want {
			t.Errorf("%q is software: %t", name, got)
		}
	}
}

func TestReadText(t *testing.T) {
	root := fstest.MapFS{
		"long":   file(strings.Repeat("a", mostText) + "b"),
		"lines":  file(" one \ntwo\n"),
		"folder": &fstest.MapFile{Mode: 0o755 | 1<<31},
	}
	if text, err := readText(root, "long"); err != nil || text != strings.Repeat("a", mostText) {
		t.Errorf("read %d bytes: %v", len(text), err)
	}
	if line := readLine(root, "lines"); line != "one" {
		t.Errorf("the line is %q", line)
	}
	if text, err := readText(root, "folder"); err == nil || text != "" {
		t.Errorf("read %q of a folder", text)
	}
	if text, err := readText(root, "none"); err == nil || text != "" {
		t.Errorf("read %q of nothing", text)
	}
}

// closing is a file system of which the files that were not closed are counted.
type closing struct {
	fs.FS

	open *int
}

func (c closing) Open(name string) (fs.File, error) {
	file, err := c.FS.Open(name)
	*c.open++
	return &closingFile{file, c.open}, err
}

type closingFile struct {
	fs.File

	open *int
}

func (f *closingFile) Close() error {
	*f.open--
	return f.File.Close()
}

func TestFilesAreClosed(t *testing.T) {
	root := closing{hardware(), new(int)}
	if text, err := readText(root, "proc/cpuinfo"); err != nil || text == "" || *root.open != 0 {
		t.Errorf("read %q, and %d files are open: %v", text, *root.open, err)
	}
}

func TestPrintable(t *testing.T) {
	for given, want := range map[string]string{
		"iTCO_wdt":                         "iTCO_wdt",
		"one\x00two":                       "one",
		" a\tb\x7f\xff~ ":                  "a?b??~",
		"a b\x1fc":                         "a b?c",
		"abcdefghijklmnopqrstuvwxyz012345": "abcdefghijklmnopqrstuvwxyz012345",
	} {
		var raw [32]uint8
		copy(raw[:], given)
		if got := printable(raw); got != want {
			t.Errorf("%q is shown as %q, want %q", given, got, want)
		}
	}
}
