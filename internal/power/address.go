package power

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

const (
	// maxAddress bounds an address.
	maxAddress = 512
	// maxName bounds the name of a host (RFC 1035).
	maxName = 253
	// systemsPath is where a Redfish service has its systems.
	systemsPath = "/redfish/v1/Systems/"
	// ipmiPort, httpPort and httpsPort are the usual ports.
	ipmiPort, httpPort, httpsPort = 623, 80, 443
)

// Protocol is how a BMC is spoken to.
type Protocol string

// Protocols.
const (
	Redfish Protocol = "Redfish"
	IPMI    Protocol = "IPMI"
)

// Address is where a BMC is, and which system of it is meant.
type Address struct {
	Protocol Protocol
	// Host is a name or an IP address, without brackets.
	Host string
	Port uint16
	// Plain is set for Redfish over HTTP without TLS.
	Plain bool
	// System is the path of the system, or empty if the BMC has only one. IPMI has none.
	System string
}

// redfishSchemes are the schemes for Redfish, as metal3 has them. Each may end in +http or +https.
var redfishSchemes = [...]string{
	"redfish", "idrac-redfish", "ilo5-redfish", "redfish-virtualmedia", "idrac-virtualmedia", "ilo5-virtualmedia",
}

// ParseAddress parses the address of a BMC. An error quotes nothing of the address, since that may contain a password.
func ParseAddress(given string) (Address, error) {
	if len(given) > maxAddress {
		return Address{}, ConfigError("the address is longer than 512 bytes; give redfish://HOST/redfish/v1/Systems/ID or ipmi://HOST")
	}
	scheme, _, found := strings.Cut(given, "://")
	if !found {
		return Address{}, ConfigError("the address has no scheme; give redfish://HOST/redfish/v1/Systems/ID or ipmi://HOST")
	}
	address, err := ofScheme(strings.ToLower(scheme))
	if err != nil {
		return Address{}, err
	}
	parts, err := url.Parse(given)
	if err != nil {
		return Address{}, ConfigError("the address is not a URL; give SCHEME://HOST, with an IPv6 address in brackets")
	}
	return address.with(parts)
}

// ParseSystem parses the address of a BMC with the ID of its system, which may be empty.
func ParseSystem(given, system string) (Address, error) {
	address, err := ParseAddress(given)
	switch {
	case err != nil, system == "":
		return address, err
	case address.Protocol == IPMI:
		return Address{}, ConfigError("an address of IPMI has no system; leave the system out")
	case address.System != "":
		return Address{}, ConfigError("the address names a system already; leave the system out, or the path out of the address")
	}
	return ParseAddress(address.String() + systemsPath + system)
}

// Overlaps reports whether both addresses may be of the same system. Without a system, an address may mean any system of its BMC.
func (a Address) Overlaps(other Address) bool {
	return a.sharesBMC(other) && (a.System == "" || other.System == "" || a.System == other.System)
}

// sharesBMC reports whether both addresses are of the same BMC, or may be. A BMC speaks Redfish and IPMI at one host. Several BMCs behind
// one host have ports of their own, which are not the usual ones.
func (a Address) sharesBMC(other Address) bool {
	if a.Host == "" || a.Host != other.Host {
		return false
	}
	return a.Port == other.Port || a.Protocol != other.Protocol && (a.hasUsualPort() || other.hasUsualPort())
}

// hasUsualPort reports whether the port is that of the protocol.
func (a Address) hasUsualPort() bool {
	switch {
	case a.Protocol == IPMI:
		return a.Port == ipmiPort
	case a.Plain:
		return a.Port == httpPort
	}
	return a.Port == httpsPort
}

// ofScheme returns an address with what its scheme says.
func ofScheme(scheme string) (Address, error) {
	if scheme == "ipmi" {
		return Address{Protocol: IPMI, Port: ipmiPort}, nil
	}
	family, transport, named := strings.Cut(scheme, "+")
	if !isRedfish(family) || named && transport != "http" && transport != "https" {
		return Address{}, otherScheme(scheme)
	}
	if transport == "http" {
		return Address{Protocol: Redfish, Port: httpPort, Plain: true}, nil
	}
	return Address{Protocol: Redfish, Port: httpsPort}, nil
}

// isRedfish reports whether a scheme without its transport is one for Redfish.
func isRedfish(family string) bool {
	for _, known := range redfishSchemes {
		if family == known {
			return true
		}
	}
	return false
}

// otherScheme returns the error for a scheme that isn't supported, and what to give in its place.
func otherScheme(scheme string) error {
	switch scheme {
	case "http", "https":
		return ConfigError("the address is of a web page; give redfish+" + scheme + "://HOST/redfish/v1/Systems/ID")
	case "libvirt", "ipmi+http", "ipmi+https":
		return ConfigError("the scheme is not supported; give ipmi://HOST:PORT")
	case "ilo4", "ilo4-virtualmedia", "ilo5", "idrac", "irmc", "redfish-uefihttp":
		return ConfigError("the scheme is not supported; give redfish://HOST/redfish/v1/Systems/ID or ipmi://HOST")
	}
	return ConfigError("the scheme is not known; give redfish, idrac-redfish, ilo5-redfish, redfish-virtualmedia, " +
		"idrac-virtualmedia or ilo5-virtualmedia, each also with +http or +https, or ipmi")
}

// with returns the address with the parts of its URL.
func (a Address) with(parts *url.URL) (Address, error) {
	if parts.User != nil {
		return Address{}, ConfigError("the address has a user name; give it in the Secret with the credentials")
	}
	if parts.RawQuery != "" || parts.ForceQuery || parts.Fragment != "" {
		return Address{}, ConfigError("the address has a query or a fragment; give SCHEME://HOST:PORT/PATH")
	}
	var err error
	if a.Host, err = parseHost(parts.Hostname()); err != nil {
		return Address{}, err
	}
	if a.Port, err = parsePort(parts, a.Port); err != nil {
		return Address{}, err
	}
	if a.System, err = a.parsePath(parts.EscapedPath()); err != nil {
		return Address{}, err
	}
	return a, nil
}

// parseHost returns a name or an IP address in its usual form.
func parseHost(given string) (string, error) {
	if ip, err := netip.ParseAddr(given); err == nil {
		if ip.Zone() != "" {
			return "", ConfigError("the address has an IPv6 zone; give another address")
		}
		return ip.Unmap().String(), nil
	}
	if given == "" || len(given) > maxName || strings.Trim(given, ".-_") != given {
		return "", ConfigError("the address has no valid host; give a name or an IP address")
	}
	for _, char := range given {
		if !isNameChar(char) {
			return "", ConfigError("the address has no valid host; give a name or an IP address")
		}
	}
	return strings.ToLower(given), nil
}

// isNameChar reports whether a character may be in the name of a host.
func isNameChar(char rune) bool {
	return char >= 'a' && char <= 'z' || char >= 'A' && char <= 'Z' || char >= '0' && char <= '9' ||
		char == '.' || char == '-' || char == '_'
}

// parsePort returns the port of a URL, or the usual one.
func parsePort(parts *url.URL, usual uint16) (uint16, error) {
	if strings.HasSuffix(parts.Host, ":") {
		return 0, ConfigError("the address has an empty port; leave the colon out, or give a number up to 65535")
	}
	if parts.Port() == "" {
		return usual, nil
	}
	port, err := strconv.ParseUint(parts.Port(), 10, 16)
	if err != nil || port == 0 {
		return 0, ConfigError("the address has no valid port; give a number from 1 to 65535")
	}
	return uint16(port), nil
}

// parsePath returns the path of the system that an address means, or nothing if it leaves the choice to the BMC.
func (a Address) parsePath(path string) (string, error) {
	path = strings.TrimRight(path, "/")
	if a.Protocol == IPMI && path != "" {
		return "", ConfigError("an address of IPMI has no path; give ipmi://HOST:PORT")
	}
	if path == "" || path == "/redfish/v1" {
		return "", nil
	}
	if !isSystem(path) {
		return "", ConfigError("the path is not one of a system; give /redfish/v1/Systems/ID, or none if the BMC has one system")
	}
	return path, nil
}

// isSystem reports whether a path is one of a system.
func isSystem(path string) bool {
	id, found := strings.CutPrefix(path, systemsPath)
	if !found || id == "" || id == "." || id == ".." || len(path) > maxAddress {
		return false
	}
	for _, char := range id {
		if char <= ' ' || char > '~' || strings.ContainsRune("/?#\\\"<>@", char) {
			return false
		}
	}
	return true
}

// HostPort returns the host and the port, as for a connection.
func (a Address) HostPort() string {
	return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
}

// String returns the address in one form, however it was written. Two addresses are of the same system if both forms are equal.
func (a Address) String() string {
	scheme := "ipmi"
	if a.Protocol == Redfish {
		scheme = "redfish+" + a.httpScheme()
	}
	return scheme + "://" + a.HostPort() + a.System
}

// httpScheme returns the scheme of the requests.
func (a Address) httpScheme() string {
	if a.Plain {
		return "http"
	}
	return "https"
}
