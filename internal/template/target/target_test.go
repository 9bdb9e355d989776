package target

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestParseTemplate(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain": "", "Bearer {headers.token}": "",
		"{headers.x-y.z}{exchange}{routing_key}{message.id}{correlation_id}{type}": "",
		"{body.json.a.b}{body:/a~1b/0}":                                            "",
		"{routing_key.1}-{routing_key.-1}{routing_key.255}":                        "",
		"{routing_key.0}":   "found {routing_key.0}",
		"{routing_key.256}": "found {routing_key.256}",
		"{routing_key.a}":   "found {routing_key.a}",
		"{routing_key.}":    "found {routing_key.}",
		"{":                 "expected fields such as",
		"{headers.a":        "expected fields such as",
		"a}":                "expected { before }",
		"{{headers.a}}":     "expected fields such as",
		"{headers.}":        "found {headers.}: expected {headers.NAME}",
		"{headers}":         "found {headers}",
		"{header.a}":        "found {header.a}",
		"{body.json.}":      "found {body.json.}",
		"{body.json.a..b}":  "found {body.json.a..b}",
		"{body:a}":          "found {body:a}",
		"{body}":            "found {body}",
		"{}":                "found {}",
	} {
		_, err := ParseTemplate(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"http://h/orders":              "",
		"https://u:p@h/{exchange}":     "",
		"{headers.url}":                "",
		"https://{headers.h}":          "",
		"https://{headers.h}:8443/a":   "",
		"https://{headers.m}.h.com/a":  "",
		"https://h?a={type}":           "",
		"https://h/{body:/a/b?c}?d=e":  "",
		"ftp://h/":                     "expected http or https and a host, or a field that is the whole URL",
		"http:///a":                    "expected http or https and a host",
		"http:h":                       "expected http or https and a host",
		"{headers.url}/hooks":          "expected http or https and a host",
		"{headers.scheme}://h/":        "expected http or https and a host",
		"http{headers.s}://h/":         "expected http or https and a host",
		"https://{headers.h}/#{type}":  "expected # to be written as %23",
		"https://h/?{type}#":           "expected # to be written as %23",
		"https://h/?a b={type}":        "expected %XX for spaces",
		"https://u:p@{headers.h}/":     "expected no login beside fields in the host",
		"https://{headers.u}@h/":       "expected no login beside fields in the host",
		"https://{headers.h}@evil/":    "expected no login beside fields in the host",
		"https://h/a/../{type}":        "expected a path without . and ..",
		"https://h/%2e%2e/{type}":      "expected a path without . and ..",
		"https://{headers.h}\\@evil/a": "expected http or https and a host",
	} {
		_, err := ParseURL(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// values are the values of fields by name.
func values(of map[string]string) Value {
	return func(f Field) (string, error) {
		if text := of[f.Name]; text != "" {
			return text, nil
		}
		return "", Missing(f)
	}
}

func hosts(t testing.TB, patterns ...string) []Host {
	var all []Host
	for _, pattern := range patterns {
		h, err := ParseHost(pattern)
		if err != nil {
			t.Fatalf("%s: %v", pattern, err)
		}
		all = append(all, h)
	}
	return all
}

// A URL has its values where the template has the fields, and nowhere else.
func TestFill(t *testing.T) {
	allowed := hosts(t, "hooks.example.com", "*.merchants.example.com", "[2606:4700::1111]:8443", "http://plain.example.com")
	for _, test := range []struct{ template, x, want string }{
		{"http://u:p@127.0.0.1:8080/a?b=c", "", "http://u:p@127.0.0.1:8080/a?b=c"},
		{"http://10.0.0.1/{headers.x}/b", "a b", "http://10.0.0.1/a%20b/b"},
		{"https://h/{headers.x}", "ü@:;%2f?#", "https://h/%C3%BC@:%3B%252f%3F%23"},
		{"https://h/a?b={headers.x}&c=d", "&e=f#/../ü", "https://h/a?b=%26e%3Df%23%2F..%2F%C3%BC&c=d"},
		{"https://h?{headers.x}", "=", "https://h?%3D"},
		{"https://h/v1.{headers.x}/..a", ".", "https://h/v1../..a"},
		{"https://{headers.x}/hooks", "HOOKS.example.com", "https://hooks.example.com/hooks"},
		{"https://{headers.x}/hooks", "hooks.example.com:443", "https://hooks.example.com:443/hooks"},
		{"http://{headers.x}/hooks", "hooks.example.com", "http://hooks.example.com/hooks"},
		{"https://{headers.x}.merchants.example.com", "a.b", "https://a.b.merchants.example.com"},
		{"https://{headers.x}:8443/", "[2606:4700:0::1111]", "https://[2606:4700::1111]:8443/"},
		{"{headers.x}", "https://hooks.example.com/a/../b?c=d&e=%20", "https://hooks.example.com/a/../b?c=d&e=%20"},
		{"{headers.x}", "HTTPS://Hooks.Example.Com", "https://hooks.example.com"},
		{"{headers.x}", "http://plain.example.com/", "http://plain.example.com/"},
	} {
		u, err := ParseURL(test.template)
		if err != nil {
			t.Errorf("%s: %v", test.template, err)
			continue
		}
		if got, err := u.Fill(values(map[string]string{"headers.x": test.x}), allowed); err != nil || got.String() != test.want {
			t.Errorf("%s of %q: got %s, %v, want %s", test.template, test.x, got, err, test.want)
		}
	}
}

// What a message may not choose is refused, with an error that does not quote it.
func TestFillRefuses(t *testing.T) {
	const host, path, whole = "https://{headers.x}/hooks", "https://h/a/{headers.x}/b", "{headers.x}"
	allowed := hosts(t, "hooks.example.com", "*.merchants.example.com", "192.0.2.1", "http://plain.example.com", "xn--bcher-kva.example")
	for _, test := range []struct{ template, x, kind string }{
		{host, "", MissingField},
		{host, "evil.example", RefusedHost},
		{host, "merchants.example.com", RefusedHost},
		{host, "evilmerchants.example.com", RefusedHost},
		{host, "hooks.example.com:8443", RefusedHost},
		{host, "hooks.example.com:80", RefusedHost},
		{host, "plain.example.com", RefusedHost},
		{host, "192.0.2.2", RefusedHost},
		{host, "hooks.example.com.", InvalidField},
		{host, "hooks.example.com@evil.example", InvalidField},
		{host, "user@hooks.example.com", InvalidField},
		{host, "evil.example/.merchants.example.com", InvalidField},
		{host, "evil.example#.merchants.example.com", InvalidField},
		{host, "evil.example?.merchants.example.com", InvalidField},
		{host, `evil.example\.merchants.example.com`, InvalidField},
		{host, "evil.example%2f.merchants.example.com", InvalidField},
		{host, "evil.example%00.merchants.example.com", InvalidField},
		{host, "evil example.merchants.example.com", InvalidField},
		{host, ".merchants.example.com", InvalidField},
		{host, "a..merchants.example.com", InvalidField},
		{host, "hooks.example.com:", InvalidField},
		{host, "hooks.example.com:0443", InvalidField},
		{host, "hooks.example.com:443:443", InvalidField},
		{host, "hooks.example.com:+443", InvalidField},
		{host, "hooks.example.com:65979", InvalidField},
		{host, "bücher.example", InvalidField},
		{host, "xn--bcher-kva.example.evil.example", RefusedHost},
		{host, "0x7f.1", InvalidField},
		{host, "0x7f000001", InvalidField},
		{host, "2130706433", InvalidField},
		{host, "0177.0.0.1", InvalidField},
		{host, "127.1", InvalidField},
		{host, "192.0.2.1.", InvalidField},
		{host, "[::ffff:192.0.2.2]", RefusedHost},
		{host, "[fe80::1%25eth0]", InvalidField},
		{host, "[fe80::1%eth0]", InvalidField},
		{host, "[::1", InvalidField},
		{host, "[192.0.2.1]", InvalidField},
		{host, "::1", InvalidField},
		{host, strings.Repeat("a", 64) + ".merchants.example.com", InvalidField},
		{host, strings.Repeat("a.", 130) + "merchants.example.com", InvalidField},
		{path, "a/b", InvalidField},
		{path, `a\b`, InvalidField},
		{path, "..", InvalidField},
		{path, ".", InvalidField},
		{"https://h/.{headers.x}", ".", InvalidField},
		{"https://h/%2e{headers.x}", ".", InvalidField},
		{whole, "http://hooks.example.com/", RefusedHost},
		{whole, "https://plain.example.com/", RefusedHost},
		{whole, "ftp://hooks.example.com/", InvalidField},
		{whole, "file:///etc/passwd", InvalidField},
		{whole, "//hooks.example.com/", InvalidField},
		{whole, "hooks.example.com", InvalidField},
		{whole, "https:hooks.example.com", InvalidField},
		{whole, "https:///hooks.example.com/", InvalidField},
		{whole, "https://user:secret@hooks.example.com/", InvalidField},
		{whole, "https://hooks.example.com@evil.example/", InvalidField},
		{whole, `https://hooks.example.com\@evil.example/`, InvalidField},
		{whole, `https://evil.example\.merchants.example.com/`, InvalidField},
		{whole, "https://hooks.example.com/#secret", InvalidField},
		{whole, "https://hooks.example.com/a b?secret", InvalidField},
		{whole, "https://hooks.example.com/?a HTTP/1.1", InvalidField},
		{whole, "https://hooks.example.com/\r\nHost: evil.example", InvalidField},
		{whole, " https://hooks.example.com/", InvalidField},
		{whole, "https://hooks.example.com./", InvalidField},
		{whole, "https://[::1%25lo]/", InvalidField},
		{whole, "https://ev%69l.example/", InvalidField},
		{whole, "https://evil.example/?secret", RefusedHost},
	} {
		u, err := ParseURL(test.template)
		if err != nil {
			t.Fatal(err)
		}
		got, err := u.Fill(values(map[string]string{"headers.x": test.x}), allowed)
		var problem *Problem
		if !errors.As(err, &problem) || problem.Kind != test.kind {
			t.Errorf("%s of %q: got %s, %v, want %s", test.template, test.x, got, err, test.kind)
		} else if strings.Contains(err.Error(), "secret") || test.kind != RefusedHost && !strings.Contains(err.Error(), "headers.x") {
			t.Errorf("%s of %q: the error is %q", test.template, test.x, err)
		}
	}
}

func TestHosts(t *testing.T) {
	for pattern, test := range map[string]struct{ allows, refuses []string }{
		"hooks.example.com":        {[]string{"https hooks.example.com", "http hooks.example.com", "https hooks.example.com:443", "http hooks.example.com:80"}, []string{"https hooks.example.com:80", "https example.com", "https a.hooks.example.com"}},
		"Hooks.Example.com:8443":   {[]string{"https hooks.example.com:8443"}, []string{"https hooks.example.com", "https hooks.example.com:443"}},
		"*.example.com":            {[]string{"https a.example.com", "https a.b.example.com"}, []string{"https example.com", "https aexample.com", "https a.example.com:8443"}},
		"*.example.com:8443":       {[]string{"https a.example.com:8443"}, []string{"https a.example.com"}},
		"*":                        {[]string{"https a.example.com", "https localhost"}, []string{"https a:8443", "https 1.1.1.1", "https [2606:4700::1111]"}},
		"*:8443":                   {[]string{"https a:8443"}, []string{"https a"}},
		"http://hooks.example.com": {[]string{"http hooks.example.com"}, []string{"https hooks.example.com", "https hooks.example.com:80"}},
		"https://*":                {[]string{"https hooks.example.com"}, []string{"http hooks.example.com"}},
		"1.1.1.1":                  {[]string{"https 1.1.1.1", "https [::ffff:1.1.1.1]"}, []string{"https 1.1.1.2"}},
		"[2606:4700::1111]":        {[]string{"https [2606:4700:0::1111]"}, []string{"https [2606:4700::1112]"}},
	} {
		h := hosts(t, pattern)[0]
		for want, tos := range map[bool][]string{true: test.allows, false: test.refuses} {
			for _, to := range tos {
				scheme, name, _ := strings.Cut(to, " ")
				parsed, err := parseHost(name)
				if err != nil || h.allows(parsed, scheme, scheme) != want {
					t.Errorf("%s allows %s: want %v, %v", pattern, to, want, err)
				}
			}
		}
	}
	for _, pattern := range []string{
		"", "*example.com", "*.", "a.*.com", "**", "example.com/", "example.com/hooks", "u@example.com", "ftp://example.com", "://a",
		"bücher.example", "*.1.1.1.1", "example.com:0", "example.com:https", "example.com:", "*:", "::1", "a b", "{headers.x}", "0x7f.1",
	} {
		if _, err := ParseHost(pattern); err == nil {
			t.Errorf("%q is a host", pattern)
		}
	}
}

func TestIsAllowed(t *testing.T) {
	for _, public := range []string{
		"1.1.1.1", "93.184.215.14", "172.15.255.255", "172.32.0.1", "100.63.255.255", "100.128.0.1", "2606:4700::1111", "2a00:1450:4001::1",
		"::ffff:1.1.1.1", "64:ff9b::1.1.1.1",
	} {
		if !IsAllowed(netip.MustParseAddr(public), nil) {
			t.Errorf("%s is refused", public)
		}
	}
	for _, private := range []string{
		"0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1",
		"100.100.100.200", "100.127.255.255", "192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1",
		"240.0.0.1", "255.255.255.255", "168.63.129.16",
		"::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1", "3fff::1", "100::1", "4000::1",
		"::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::ffff:0:127.0.0.1",
		"64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b::127.0.0.1", "64:ff9b:1::1.1.1.1", "2002:7f00:1::", "2002:101:101::", "2001:0:1::1",
	} {
		if IsAllowed(netip.MustParseAddr(private), nil) {
			t.Errorf("%s is allowed", private)
		}
	}
	if IsAllowed(netip.Addr{}, nil) {
		t.Error("no address is allowed")
	}
	networks := []netip.Prefix{netip.MustParsePrefix("10.20.0.0/16"), netip.MustParsePrefix("fd00:20::/32")}
	for address, want := range map[string]bool{
		"10.20.3.4": true, "::ffff:10.20.3.4": true, "64:ff9b::10.20.3.4": true, "fd00:20::1": true, "fd00:20::1%eth0": true,
		"10.21.0.1": false, "::1": false, "127.0.0.1": false, "1.1.1.1": true,
	} {
		if got := IsAllowed(netip.MustParseAddr(address), networks); got != want {
			t.Errorf("%s: got %v", address, got)
		}
	}
}

// FuzzURL holds every URL of a message to the host, the path and the parameters that its
// template leaves open, and every template to errors without panics.
func FuzzURL(f *testing.F) {
	f.Add("https://{headers.x}/hooks/{headers.y}?a={headers.z}&b=c", "hooks.example.com", "merchant", "1")
	f.Add("{headers.x}", "https://hooks.example.com/?a", "..", "&d=e#")
	f.Add("https://h/{body:/a}", "a@b", `..\`, "\r\n")
	f.Add("https://u:p@h:1/{headers.x}?", "a.example.com:443/../", "%2e%2e%2f", ":8443")
	allowed := hosts(f, "hooks.example.com", "*.merchants.example.com:8443")
	f.Fuzz(func(t *testing.T, template, x, y, z string) {
		given := values(map[string]string{"headers.x": x, "headers.y": y, "headers.z": z, "type": z})
		if u, err := ParseURL(template); err == nil {
			if got, err := u.Fill(given, allowed); err == nil && u.HostFromMessage() && !isOfTest(got) {
				t.Errorf("%q: %q %q %q lead to %q", template, x, y, z, got.Host)
			}
		}
		for _, template := range []string{"https://{headers.x}/hooks/{headers.y}/in?a={headers.z}&b=c", "https://{headers.x}.merchants.example.com:8443/hooks/{headers.y}/in?a={headers.z}&b=c"} {
			u, err := ParseURL(template)
			if err != nil {
				t.Fatal(err)
			}
			got, err := u.Fill(given, allowed)
			if err != nil {
				continue
			}
			read, err := url.Parse(got.String())
			if err != nil {
				t.Fatalf("%q: %v", got, err)
			}
			if !isOfTest(read) || read.Scheme != "https" || read.User != nil || read.Fragment != "" || read.Path != "/hooks/"+y+"/in" || strings.Count(read.Path, "/") != 3 {
				t.Errorf("%q %q %q make %q", x, y, z, got)
			}
			if query := read.Query(); len(query) != 2 || len(query["a"]) != 1 || query.Get("a") != z || query.Get("b") != "c" {
				t.Errorf("%q has the query %v, want %q", got, query, z)
			}
		}
	})
}

// isOfTest reports whether a URL leads to a host of FuzzURL.
func isOfTest(u *url.URL) bool {
	return u.Host == "hooks.example.com" || u.Host == "hooks.example.com:443" || strings.HasSuffix(u.Host, ".merchants.example.com:8443") && len(u.Host) > len(".merchants.example.com:8443")
}

// A host without a scheme in the list is allowed with https only, which the refusal says.
func TestRefusalNamesTheScheme(t *testing.T) {
	u, err := ParseURL("{headers.url}")
	if err != nil {
		t.Fatal(err)
	}
	_, err = u.Fill(func(Field) (string, error) { return "http://hooks.example.com:8080/", nil }, hosts(t, "hooks.example.com:8080"))
	if err == nil || !strings.Contains(err.Error(), "it is allowed with https only, unless the list has http://hooks.example.com:8080") {
		t.Error(err)
	}
}
