package target

import (
	"net/netip"
	"slices"
)

// IsAllowed reports whether a connection to an address may be made for a message: an
// address of the internet, or of one of the networks.
func IsAllowed(addr netip.Addr, networks []netip.Prefix) bool {
	addr = effective(addr.WithZone(""))
	return isPublic(addr) || slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// effective returns the IPv4 address that an IPv6 address stands for, if it does: mapped
// (RFC 4291 §2.5.5.2), or translated on the way (RFC 6052), as in networks without IPv4,
// where every host of IPv4 has such an address.
func effective(addr netip.Addr) netip.Addr {
	if addr = addr.Unmap(); netip.MustParsePrefix("64:ff9b::/96").Contains(addr) {
		bytes := addr.As16()
		return netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return addr
}

// isPublic reports whether an address is one of the internet, by the registries of IANA
// (https://www.iana.org/assignments/iana-ipv4-special-registry and -ipv6-special-registry).
func isPublic(addr netip.Addr) bool {
	if addr.Is6() && !netip.MustParsePrefix("2000::/3").Contains(addr) {
		return false // of IPv6, only this is assigned to hosts of the internet
	}
	return addr.IsValid() && !slices.ContainsFunc(special(), func(text string) bool { return netip.MustParsePrefix(text).Contains(addr) })
}

// special lists the networks of addresses that are not of the internet, or not of one host.
func special() []string {
	return []string{
		"0.0.0.0/8", "10.0.0.0/8", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",
		"100.64.0.0/10",                      // of providers with address translation
		"169.254.0.0/16", "168.63.129.16/32", // link-local, and the metadata of clouds
		"192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15",
		"192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", // of documents
		"224.0.0.0/4", "240.0.0.0/4", // multicast; reserved and broadcast
		"2001::/23",                  // Teredo and other protocols, which may wrap any IPv4 address
		"2002::/16",                  // 6to4, as well
		"2001:db8::/32", "3fff::/20", // of documents
	}
}
