package agent

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fettle-io/fettle/internal/promiselease"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	dir := Directory(t.TempDir())
	first, second := netip.MustParseAddrPort("192.0.2.1:9643"), netip.MustParseAddrPort("[2001:db8::1]:9643")
	a := NewAddresses(dir)
	if _, is := a.Of("a"); is {
		t.Error("there is an address of a")
	}
	if err := a.note([]string{"a", "b", "none"}, map[string]promiselease.Record{"a": {Address: first}, "b": {Address: second}, "c": {Address: first}}); err != nil {
		t.Fatal(err)
	}
	again := NewAddresses(dir)
	for node, want := range map[string]netip.AddrPort{"a": first, "b": second, "c": {}, "none": {}} {
		if got, is := again.Of(node); got != want || is != want.IsValid() {
			t.Errorf("the address of %s is %s, want %s", node, got, want)
		}
	}
	if err := again.note([]string{"b", "c"}, map[string]promiselease.Record{"c": {Address: first}}); err != nil {
		t.Fatal(err)
	}
	again = NewAddresses(dir)
	if _, is := again.Of("a"); is {
		t.Error("the address of a node that is queried no more is kept")
	}
	if got, _ := again.Of("b"); got != second {
		t.Error("a node whose Lease states no address for now loses what was known")
	}
}

func TestAddressesUnread(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", "[]", `{"a":"x"}`, `{"a":"192.0.2.1:1","b":"x"}`, `{"a":"192.0.2.1:1"}` + strings.Repeat(" ", maxAddresses)} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, addressFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if at, is := NewAddresses(Directory(dir)).Of("a"); is {
			t.Errorf("the address is %s by %.40q", at, text)
		}
	}
	if err := NewAddresses("/dev/null").note([]string{"a"}, map[string]promiselease.Record{"a": {Address: netip.MustParseAddrPort("192.0.2.1:1")}}); err == nil {
		t.Error("a file that can't be written is no error")
	}
}

// TestLongAddresses: a file of 32 KiB is read, and a longer one is not.
func TestLongAddresses(t *testing.T) {
	t.Parallel()
	const text = `{"a":"192.0.2.1:1"}`
	for size, want := range map[int]bool{32 << 10: true, 32<<10 + 1: false} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, addressFile), []byte(text+strings.Repeat(" ", size-len(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, is := NewAddresses(Directory(dir)).Of("a"); is != want {
			t.Errorf("a file of %d bytes is read: %t", size, is)
		}
	}
}

// TestManyAddresses: as many addresses are kept as the file is to have, and a longer file counts for none.
func TestManyAddresses(t *testing.T) {
	t.Parallel()
	dir, a := Directory(t.TempDir()), netip.MustParseAddrPort("192.0.2.1:1")
	var nodes []string
	all := map[string]promiselease.Record{}
	for i := range 65 {
		name := fmt.Sprint("n", i)
		nodes, all[name] = append(nodes, name), promiselease.Record{Address: a}
	}
	if err := NewAddresses(dir).note(nodes, all); err != nil {
		t.Fatal(err)
	}
	again := NewAddresses(dir)
	for name, want := range map[string]bool{"n0": true, "n63": true, "n64": false} {
		if _, is := again.Of(name); is != want {
			t.Errorf("the address of %s is known: %t", name, is)
		}
	}
	if err := os.RemoveAll(string(dir)); err != nil {
		t.Fatal(err)
	}
	if err := again.note(nodes, all); err != nil {
		t.Errorf("addresses that are known are stored again: %v", err)
	}
	for count, want := range map[int]bool{64: true, 65: false} {
		known := map[string]netip.AddrPort{}
		for i := range count {
			known[fmt.Sprint("n", i)] = a
		}
		text, err := json.Marshal(known)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, addressFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, is := NewAddresses(Directory(dir)).Of("n0"); is != want {
			t.Errorf("of a file with %d addresses one is known: %t", count, is)
		}
	}
}
