package powercycle

import (
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

func system(id string) func(*v1alpha1.BMC) { return func(b *v1alpha1.BMC) { b.Spec.System = id } }

func bmcKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: bmcNamespace, Name: name}
}

// TestBMCsOfTheSameHost: two BMCs that may power the same host are both refused.
func TestBMCsOfTheSameHost(t *testing.T) {
	const plain, one = "redfish://10.0.0.1", "redfish://10.0.0.1/redfish/v1/Systems/1"
	for sentence, tc := range map[string]struct {
		first, second *v1alpha1.BMC
		same          bool
	}{
		"different hosts":                    {bmcFor("a", "node-a", plain), bmcFor("b", "node-b", "redfish://10.0.0.2"), false},
		"one host":                           {bmcFor("a", "node-a", plain), bmcFor("b", "node-b", plain), true},
		"one host by another scheme":         {bmcFor("a", "node-a", plain), bmcFor("b", "node-b", "idrac-redfish+https://10.0.0.1"), true},
		"the usual port, and given":          {bmcFor("a", "node-a", plain), bmcFor("b", "node-b", "redfish://10.0.0.1:443"), true},
		"another port":                       {bmcFor("a", "node-a", plain), bmcFor("b", "node-b", "redfish://10.0.0.1:8443"), false},
		"HTTP on the port of HTTPS":          {bmcFor("a", "node-a", plain), bmcFor("b", "node-b", "redfish+http://10.0.0.1:443"), true},
		"HTTP on its own port":               {bmcFor("a", "node-a", plain), bmcFor("b", "node-b", "redfish+http://10.0.0.1"), false},
		"different systems":                  {bmcFor("a", "node-a", one), bmcFor("b", "node-b", "redfish://10.0.0.1/redfish/v1/Systems/2"), false},
		"the same system":                    {bmcFor("a", "node-a", one), bmcFor("b", "node-b", one), true},
		"the same system by two fields":      {bmcFor("a", "node-a", one), bmcFor("b", "node-b", plain, system("1")), true},
		"a system by a field, and another":   {bmcFor("a", "node-a", one), bmcFor("b", "node-b", plain, system("2")), false},
		"any system, and one":                {bmcFor("a", "node-a", plain), bmcFor("b", "node-b", one), true},
		"one system, and any":                {bmcFor("a", "node-a", one), bmcFor("b", "node-b", plain), true},
		"one of both is invalid":             {bmcFor("a", "node-a", plain), bmcFor("b", "node-b", "telnet://10.0.0.1"), false},
		"both are invalid in the same way":   {bmcFor("a", "node-a", "telnet://x"), bmcFor("b", "node-b", "telnet://x"), false},
		"IPMI and Redfish at one host":       {bmcFor("a", "node-a", "ipmi://10.0.0.1"), bmcFor("b", "node-b", plain), true},
		"IPMI and Redfish, forwarded":        {bmcFor("a", "node-a", "ipmi://10.0.0.1:6230"), bmcFor("b", "node-b", "redfish://10.0.0.1:8443"), false},
		"IPMI, and IPMI at the usual port":   {bmcFor("a", "node-a", "ipmi://10.0.0.1"), bmcFor("b", "node-b", "ipmi://10.0.0.1:623"), true},
		"one node, and different addresses ": {bmcFor("a", "node-a", plain), bmcFor("b", "node-a", "redfish://10.0.0.2"), true},
	} {
		i := newInventory()
		i.put(tc.first)
		i.put(tc.second)
		for _, own := range []*v1alpha1.BMC{tc.first, tc.second} {
			got, found := i.find(own.Spec.NodeName)
			if found.found() != tc.same || !tc.same && got != own || tc.same && got != nil {
				t.Errorf("%s: %s is found as %v with problem %+v", sentence, own.Name, got, found)
			}
			if tc.same && (found.reason != v1alpha1.CannotStartAmbiguousBMCReason || !strings.Contains(found.message, "a and b")) {
				t.Errorf("%s: the problem is %+v", sentence, found)
			}
		}
		i.drop(bmcKey("b"))
		if got, found := i.find("node-a"); found.found() || got != tc.first {
			t.Errorf("%s: after one is gone, the other is found as %v with problem %+v", sentence, got, found)
		}
	}
}

func TestNoBMC(t *testing.T) {
	i := newInventory()
	i.put(bmcFor("a", "node-a", "redfish://10.0.0.1"))
	if got, found := i.find("node-b"); got != nil || found.reason != v1alpha1.CannotStartNoBMCReason || !strings.Contains(found.message, "node-b") {
		t.Errorf("found %v with problem %+v", got, found)
	}
}

// TestPutReportsChangesOfTheSpec, by the generation, and that a BMC of a name is another one.
func TestPutReportsChangesOfTheSpec(t *testing.T) {
	i := newInventory()
	for _, tc := range []struct {
		sentence string
		change   func(*v1alpha1.BMC)
		want     bool
	}{
		{"new", func(*v1alpha1.BMC) {}, true},
		{"the same", func(*v1alpha1.BMC) {}, false},
		{"another status", func(b *v1alpha1.BMC) { b.ResourceVersion = "9" }, false},
		{"another spec", func(b *v1alpha1.BMC) { b.Generation = 2 }, true},
		{"created anew", func(b *v1alpha1.BMC) { b.UID, b.Generation = "new-uid", 2 }, true},
	} {
		if got := i.put(bmcFor("a", "node-a", "redfish://10.0.0.1", tc.change)); got != tc.want {
			t.Errorf("%s: changed is %t", tc.sentence, got)
		}
	}
}

// TestUpdateStoresNoBMCThatIsGone, since it would never be removed again.
func TestUpdateStoresNoBMCThatIsGone(t *testing.T) {
	i := newInventory()
	first := bmcFor("a", "node-a", "redfish://10.0.0.1")
	i.update(first)
	if i.get(bmcKey("a")) != nil {
		t.Error("a BMC that is gone was stored")
	}
	i.put(first)
	written := bmcFor("a", "node-a", "redfish://10.0.0.1")
	i.update(written)
	if i.get(bmcKey("a")) != written {
		t.Error("what was written was not stored")
	}
	i.update(bmcFor("a", "node-a", "redfish://10.0.0.1", func(b *v1alpha1.BMC) { b.UID = "earlier" }))
	if i.get(bmcKey("a")) != written {
		t.Error("the BMC was replaced by an earlier one of its name")
	}
	if node := i.drop(bmcKey("a")); node != "node-a" {
		t.Errorf("the node of the dropped BMC is %q", node)
	}
	if node := i.drop(bmcKey("a")); node != "" {
		t.Errorf("the node of a BMC that is gone is %q", node)
	}
}

// TestIndexesAgree: after any changes, the indexes have each BMC once, and nothing else.
func TestIndexesAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	i := newInventory()
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	for range 2000 {
		name := pick("a", "b", "c")
		if r.IntN(3) == 0 {
			i.drop(bmcKey(name))
		} else {
			i.put(bmcFor(name, pick("node-a", "node-b"), pick("redfish://10.0.0.1", "redfish://10.0.0.2", "telnet://x")))
		}
		byNode, byAddress := 0, 0
		for value, keys := range i.byNode {
			byNode += len(keys)
			for key := range keys {
				if i.all[key] == nil || i.all[key].Spec.NodeName != value {
					t.Fatalf("the index has %v for node %s", key, value)
				}
			}
		}
		for value, keys := range i.byAddress {
			byAddress += len(keys)
			for key := range keys {
				if i.all[key] == nil || addressKey(i.all[key]) != value {
					t.Fatalf("the index has %v for address %s", key, value)
				}
			}
		}
		if byNode != len(i.all) || byAddress != len(i.all) {
			t.Fatalf("of %d BMCs, the indexes have %d and %d", len(i.all), byNode, byAddress)
		}
	}
	for name := range map[string]bool{"a": true, "b": true, "c": true} {
		i.drop(bmcKey(name))
	}
	if len(i.all)+len(i.byNode)+len(i.byAddress) != 0 {
		t.Errorf("of no BMCs is left: %v %v %v", i.all, i.byNode, i.byAddress)
	}
}

func TestListed(t *testing.T) {
	for want, names := range map[string][]string{
		"a and b": {"b", "a"}, "a, b and c": {"c", "a", "b"}, "a, b, c and others": {"d", "b", "c", "a"},
	} {
		keys := map[types.NamespacedName]bool{}
		for _, name := range names {
			keys[bmcKey(name)] = true
		}
		if got := listed(keys); got != want {
			t.Errorf("%v are listed as %q, want %q", names, got, want)
		}
	}
}

func TestAddressWithASystem(t *testing.T) {
	for _, address := range []string{"redfish://10.0.0.1", "redfish://10.0.0.1/", "redfish://10.0.0.1/redfish/v1", "redfish://10.0.0.1/redfish/v1/"} {
		got, err := addressOf(bmcFor("a", "node-a", address, system("1")))
		if err != nil || got.System != "/redfish/v1/Systems/1" {
			t.Errorf("%s: system %q (%v)", address, got.System, err)
		}
	}
}
