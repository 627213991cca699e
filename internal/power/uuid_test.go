package power

import "testing"

const (
	someUUID    = "4c4c4544-0042-3510-8051-b7c04f4d3133"
	swappedUUID = "44454c4c-4200-1035-8051-b7c04f4d3133"
)

// TestDifferentSystems: only two UUIDs that name a system each, in either byte order, tell systems apart.
func TestDifferentSystems(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{someUUID, someUUID}: false,
		{someUUID, "4C4C4544-0042-3510-8051-B7C04F4D3133"}:  false,
		{someUUID, "4c4c454400423510" + "8051b7c04f4d3133"}: false,
		{someUUID, swappedUUID}:                             false,
		{someUUID, "44454c4c-0042-3510-8051-b7c04f4d3133"}:  true, // half of it swapped
		{someUUID, "4c4c4544-0042-3510-8051-b7c04f4d3134"}:  true,
		{someUUID, "4c4c4544-0042-3510-5180-b7c04f4d3133"}:  true, // a field that has one order
		{someUUID, ""}:                                      false,
		{someUUID, "To be filled by O.E.M."}:                false,
		{someUUID, "4c4c4544-0042-3510-8051-b7c04f4d31"}:    false,
		{someUUID, someUUID + "00"}:                         false,
		{someUUID, "4c4c4544-0042-3510-8051-b7c04f4d3134x"}: false, // no UUID, though it begins with one
		{someUUID, "00000000-0000-0000-0000-000000000000"}:  false,
		{someUUID, "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"}:  false,
		{someUUID, "03000200-0400-0500-0006-000700080009"}:  false,
		{someUUID, "00020003-0004-0005-0006-000700080009"}:  false,
		{"", ""}: false,
	} {
		if DifferentSystems(pair[0], pair[1]) != want || DifferentSystems(pair[1], pair[0]) != want {
			t.Errorf("%q and %q: different is %t, want %t", pair[0], pair[1], !want, want)
		}
	}
}

func TestCanonicalUUID(t *testing.T) {
	for given, want := range map[string]string{
		someUUID: someUUID, "4C4C4544004235108051B7C04F4D3133": someUUID, "": "", "x": "", "00000000-0000-0000-0000-000000000000": "",
	} {
		if got := CanonicalUUID(given); got != want {
			t.Errorf("%q is %q, want %q", given, got, want)
		}
	}
}
