package power

import (
	"encoding/hex"
	"strings"
)

// uuidSize is how many bytes a UUID has.
const uuidSize = 16

// placeholders are the UUIDs that boards have which were given none, in the order in which they are shown.
var placeholders = [...]string{ //nolint:gochecknoglobals // a constant list
	"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "03000200-0400-0500-0006-000700080009",
	"00020003-0004-0005-0006-000700080009",
}

// CanonicalUUID returns the UUID of a system in its usual form, or "" if what was given names no system.
func CanonicalUUID(given string) string {
	raw, err := hex.DecodeString(strings.ReplaceAll(given, "-", ""))
	if err != nil || len(raw) != uuidSize {
		return ""
	}
	shown := showUUID([uuidSize]byte(raw))
	for _, none := range placeholders {
		if shown == none {
			return ""
		}
	}
	return shown
}

func showUUID(b [uuidSize]byte) string {
	text := hex.EncodeToString(b[:])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}

// DifferentSystems reports whether two UUIDs are known to be of different systems. SMBIOS has the first three fields in the other byte
// order, and firmware shows either, so that UUIDs which differ in that alone are of the same system.
func DifferentSystems(one, other string) bool {
	one, other = CanonicalUUID(one), CanonicalUUID(other)
	return one != "" && other != "" && one != other && one != swapped(other)
}

// swapped returns a UUID in its usual form with the first three fields in the other byte order.
func swapped(shown string) string {
	return swappedField(shown[:8]) + "-" + swappedField(shown[9:13]) + "-" + swappedField(shown[14:18]) + shown[18:]
}

func swappedField(digits string) string {
	swapped := ""
	for i := len(digits); i > 0; i -= 2 {
		swapped += digits[i-2 : i]
	}
	return swapped
}
