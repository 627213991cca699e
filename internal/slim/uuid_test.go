package slim

import (
	"strings"
	"testing"
)

func TestUUIDs(t *testing.T) {
	const boot = "0f8fad5b-d9cb-469f-a165-70867728950e"
	want := UUID{0x0f, 0x8f, 0xad, 0x5b, 0xd9, 0xcb, 0x46, 0x9f, 0xa1, 0x65, 0x70, 0x86, 0x77, 0x28, 0x95, 0x0e}
	for _, text := range []string{boot, strings.ToUpper(boot)} {
		if got := ParseUUID(text); got != want {
			t.Errorf("%s is read as %x", text, got)
		} else if got.String() != boot {
			t.Errorf("%s is written as %s", text, got)
		}
	}
	for _, text := range []string{"", boot[1:], boot + "0", strings.Replace(boot, "-", "0", 1), strings.Replace(boot, "0", "-", 1), strings.Replace(boot, "e", "g", 1),
		strings.Replace(boot, "e", "/", 1), strings.Replace(boot, "e", ":", 1), strings.Replace(boot, "e", "`", 1), strings.Replace(boot, "e", "@", 1), strings.Replace(boot, "e", "G", 1)} {
		if got := ParseUUID(text); got != (UUID{}) {
			t.Errorf("%q is read as %x", text, got)
		} else if got.String() != "" {
			t.Errorf("%q is written as %s", text, got)
		}
	}
	if got := ParseUUID("9aAfF000-0000-0000-0000-000000000000"); got != (UUID{0x9a, 0xaf, 0xf0}) {
		t.Errorf("the digits are read as %x", got)
	}
}
