package power

import (
	"strings"
	"testing"
)

func TestParseAddress(t *testing.T) {
	cases := map[string]string{
		"redfish://bmc.example/redfish/v1/Systems/1":               "redfish+https://bmc.example:443/redfish/v1/Systems/1",
		"redfish+https://BMC.example:8443/redfish/v1/Systems/a.b/": "redfish+https://bmc.example:8443/redfish/v1/Systems/a.b",
		"redfish+http://10.0.0.1/redfish/v1/Systems/1":             "redfish+http://10.0.0.1:80/redfish/v1/Systems/1",
		"redfish://10.0.0.1":                                       "redfish+https://10.0.0.1:443",
		"redfish://10.0.0.1/":                                      "redfish+https://10.0.0.1:443",
		"redfish://10.0.0.1/redfish/v1/":                           "redfish+https://10.0.0.1:443",
		"idrac-redfish://h/redfish/v1/Systems/System.Embedded.1":   "redfish+https://h:443/redfish/v1/Systems/System.Embedded.1",
		"idrac-redfish+http://h":                                   "redfish+http://h:80",
		"ilo5-redfish://h/redfish/v1/Systems/1":                    "redfish+https://h:443/redfish/v1/Systems/1",
		"ilo5-redfish+https://h":                                   "redfish+https://h:443",
		"redfish-virtualmedia://h/redfish/v1/Systems/1":            "redfish+https://h:443/redfish/v1/Systems/1",
		"redfish-virtualmedia+http://h:8000/redfish/v1/Systems/1":  "redfish+http://h:8000/redfish/v1/Systems/1",
		"idrac-virtualmedia://h":                                   "redfish+https://h:443",
		"ilo5-virtualmedia+https://h":                              "redfish+https://h:443",
		"REDFISH://[2001:DB8::1]:444/redfish/v1/Systems/%7Bid%7D":  "redfish+https://[2001:db8::1]:444/redfish/v1/Systems/%7Bid%7D",
		"ipmi://10.0.0.1":                                          "ipmi://10.0.0.1:623",
		"ipmi://[::1]:6230":                                        "ipmi://[::1]:6230",
		"ipmi://[::ffff:10.0.0.1]":                                 "ipmi://10.0.0.1:623",
		"ipmi://bmc_7.rack-1/":                                     "ipmi://bmc_7.rack-1:623",
	}
	for text, want := range cases {
		address, err := ParseAddress(text)
		if err != nil || address.String() != want {
			t.Errorf("%s is %v and error %v, want %s", text, address, err, want)
		}
	}
}

func TestParseAddressErrors(t *testing.T) {
	cases := map[string]string{
		"":                                      "ipmi://HOST",
		"10.0.0.1":                              "ipmi://HOST",
		"admin:secret@10.0.0.1":                 "ipmi://HOST",
		"https://h/redfish/v1/Systems/1":        "redfish+https://HOST",
		"http://h":                              "redfish+http://HOST",
		"libvirt://h":                           "ipmi://HOST",
		"ilo4://h":                              "redfish://HOST",
		"irmc://h":                              "redfish://HOST",
		"redfish-uefihttp://h":                  "redfish://HOST",
		"redfish+ftp://h":                       "redfish, idrac-redfish",
		"redfish+://h":                          "redfish, idrac-redfish",
		"secret://h":                            "redfish, idrac-redfish",
		"ipmi+http://h":                         "ipmi://HOST",
		"ipmi://admin:secret@h":                 "Secret",
		"redfish://admin@h":                     "Secret",
		"ipmi://h?privilegelevel=secret":        "SCHEME://HOST:PORT/PATH",
		"ipmi://h?":                             "SCHEME://HOST:PORT/PATH",
		"redfish://h#secret":                    "SCHEME://HOST:PORT/PATH",
		"ipmi://":                               "a name or an IP address",
		"ipmi://:623":                           "a name or an IP address",
		"ipmi://a secret":                       "not a URL",
		"ipmi://se%63ret$":                      "not a URL",
		"ipmi://secret$":                        "a name or an IP address",
		"ipmi://.h":                             "a name or an IP address",
		"ipmi://" + strings.Repeat("a", 254):    "a name or an IP address",
		"ipmi://[fe80::1%25eth0]":               "IPv6 zone",
		"ipmi://fe80::1":                        "",
		"ipmi://h:0":                            "from 1 to 65535",
		"ipmi://h:65536":                        "from 1 to 65535",
		"ipmi://h:":                             "empty port",
		"ipmi://h/secret":                       "no path",
		"redfish://h/secret":                    "/redfish/v1/Systems/ID",
		"redfish://h/redfish/v1/Systems":        "/redfish/v1/Systems/ID",
		"redfish://h/redfish/v1/Systems/..":     "/redfish/v1/Systems/ID",
		"redfish://h/redfish/v1/Systems/1/Bios": "/redfish/v1/Systems/ID",
		"redfish://" + strings.Repeat("a", 503): "longer than 512 bytes",
	}
	for text, want := range cases {
		address, err := ParseAddress(text)
		if err == nil || !strings.Contains(err.Error(), want) || address != (Address{}) {
			t.Errorf("%.60s is %v, error %v, want an error with %q", text, address, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error quotes it: %v", text, err)
		}
	}
}

// An address in its one form is parsed as itself, and no address leads to a host that it doesn't name.
func FuzzParseAddress(f *testing.F) {
	for _, seed := range []string{"redfish://[::1]:1/redfish/v1/Systems/1", "ipmi://h", "redfish://a:b@h/#", "ilo5-redfish+http://h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		address, err := ParseAddress(text)
		if err != nil {
			if address != (Address{}) {
				t.Errorf("%q is %v and an error", text, address)
			}
			return
		}
		again, err := ParseAddress(address.String())
		if err != nil || again != address {
			t.Errorf("%q is %#v, and that again %#v, error %v", text, address, again, err)
		}
		if strings.ContainsAny(address.String(), "@?# \n") {
			t.Errorf("%q is %q", text, address)
		}
	})
}

func TestParseSystem(t *testing.T) {
	for given, want := range map[[2]string]string{
		{"redfish://h", ""}:                        "redfish+https://h:443",
		{"redfish://h/redfish/v1/Systems/1", ""}:   "redfish+https://h:443/redfish/v1/Systems/1",
		{"redfish+http://h:8000/redfish/v1/", "1"}: "redfish+http://h:8000/redfish/v1/Systems/1",
		{"redfish://[2001:db8::1]", "System.1"}:    "redfish+https://[2001:db8::1]:443/redfish/v1/Systems/System.1",
		{"ipmi://h", ""}:                           "ipmi://h:623",
	} {
		if address, err := ParseSystem(given[0], given[1]); err != nil || address.String() != want {
			t.Errorf("%q: %v, %v, want %s", given, address, err, want)
		}
	}
	for given, want := range map[[2]string]string{
		{"ipmi://h", "1"}:                         "an address of IPMI has no system; leave the system out",
		{"redfish://h/redfish/v1/Systems/1", "1"}: "the address names a system already; leave the system out, or the path out of the address",
		{"redfish://h", "a/b"}:                    "the path is not one of a system; give /redfish/v1/Systems/ID, or none if the BMC has one system",
		{"https://h", "1"}:                        "the address is of a web page; give redfish+https://HOST/redfish/v1/Systems/ID",
	} {
		if address, err := ParseSystem(given[0], given[1]); err == nil || err.Error() != want || address != (Address{}) {
			t.Errorf("%q: %v, %v, want the error %q", given, address, err, want)
		}
	}
}

func TestOverlaps(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"redfish://h", "redfish://h"}:                                           true,
		{"redfish://h", "redfish://h/redfish/v1/Systems/1"}:                      true,
		{"redfish://h/redfish/v1/Systems/1", "redfish://h/redfish/v1/Systems/1"}: true,
		{"redfish://h/redfish/v1/Systems/1", "redfish://h/redfish/v1/Systems/2"}: false,
		{"redfish+http://h:443", "redfish://h"}:                                  true,
		{"redfish://h:444", "redfish://h"}:                                       false,
		{"redfish://g", "redfish://h"}:                                           false,
		{"ipmi://h", "ipmi://h"}:                                                 true,
		{"ipmi://h", "ipmi://h:6230"}:                                            false,
		{"ipmi://h", "redfish://h"}:                                              true,
		{"ipmi://h", "redfish://g"}:                                              false,
		{"ipmi://h", "redfish://h/redfish/v1/Systems/2"}:                         true,
		{"ipmi://h", "redfish://h:8443"}:                                         true,
		{"ipmi://h:6230", "redfish://h"}:                                         true,
		{"ipmi://h:6230", "redfish+http://h"}:                                    true,
		{"ipmi://h:6230", "redfish+http://h:443"}:                                false,
		{"ipmi://h:6230", "redfish://h:80"}:                                      false,
		{"ipmi://h:6230", "redfish://h:8443"}:                                    false,
		{"", ""}:                                                                 false,
	} {
		a, _ := ParseAddress(pair[0]) // zero where it is empty
		b, _ := ParseAddress(pair[1])
		if a.Overlaps(b) != want || b.Overlaps(a) != want {
			t.Errorf("%q overlap: %t and %t, want %t", pair, a.Overlaps(b), b.Overlaps(a), want)
		}
	}
}
