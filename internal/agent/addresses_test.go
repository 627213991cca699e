package agent

import (
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
	for _, text := range []string{"", "{", "[]", `{"a":"x"}`, `{"a":"192.0.2.1:1"}` + strings.Repeat(" ", maxAddresses)} {
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
