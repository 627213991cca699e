package power

import (
	"encoding/hex"
	"slices"
	"strings"
)

// uuidSize is how many bytes a UUID has.
const uuidSize = 16

// placeholders are the UUIDs that boards have which were given none, in the order in which they are shown.
var placeholders = [...]string{
	"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "03000200-0400-0500-0006-000700080009",
	"00020003-0004-0005-0006-000700080009",
}

// CanonicalUUID returns the UUID of a system in its usual form, or "" if what was given names no system.
func CanonicalUUID(given string) string {
	raw, ok := parseUUID(given)
	if !ok {
		return ""
	}
	return showUUID(raw)
}

// parseUUID returns the bytes of a UUID, and false if it names no system.
func parseUUID(given string) (raw [uuidSize]byte, ok bool) {
	bytes, err := hex.DecodeString(strings.ReplaceAll(given, "-", ""))
	if err != nil || len(bytes) != uuidSize {
		return raw, false
	}
	raw = [uuidSize]byte(bytes)
	return raw, !slices.Contains(placeholders[:], showUUID(raw))
}

func showUUID(raw [uuidSize]byte) string {
	text := hex.EncodeToString(raw[:])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}

// DifferentSystems reports whether two UUIDs are known to be of different systems. SMBIOS has the first three fields in the other byte
// order, and firmware shows either. So UUIDs that differ in that alone are of the same system.
func DifferentSystems(one, other string) bool {
	a, known := parseUUID(one)
	b, alsoKnown := parseUUID(other)
	return known && alsoKnown && a != b && a != swapped(b)
}

// swapped returns a UUID with the first three fields in the other byte order.
func swapped(raw [uuidSize]byte) [uuidSize]byte {
	slices.Reverse(raw[:4])
	slices.Reverse(raw[4:6])
	slices.Reverse(raw[6:8])
	return raw
}
