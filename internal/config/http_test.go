package config

import "testing"

func TestWhereBrowsersFindTheConsole(t *testing.T) {
	public := NewURL("https://watership.example")
	for name, test := range map[string]struct {
		http HTTP
		want string // "": not known
	}{
		"of a proxy":            {HTTP{Listen: "127.0.0.1:8080", URL: public}, "https://watership.example"},
		"of another process":    {HTTP{URL: public}, "https://watership.example"},
		"of this machine":       {HTTP{Listen: "127.0.0.1:8080"}, "http://127.0.0.1:8080"},
		"of a name":             {HTTP{Listen: "shop.example:8080"}, "http://shop.example:8080"},
		"of IPv6":               {HTTP{Listen: "[::1]:8080"}, "http://[::1]:8080"},
		"with TLS":              {HTTP{Listen: "127.0.0.1:8080", TLS: ServerTLS{Cert: "/cert.pem"}}, "https://127.0.0.1:8080"},
		"of all addresses":      {HTTP{Listen: ":8080"}, ""},
		"of all IPv4 addresses": {HTTP{Listen: "0.0.0.0:8080"}, ""},
		"of all IPv6 addresses": {HTTP{Listen: "[::]:8080"}, ""},
		"of any port":           {HTTP{Listen: "127.0.0.1:0"}, ""},
		"nowhere":               {HTTP{}, ""},
	} {
		got := ""
		if found := test.http.Console(); found != nil {
			got = found.String()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
