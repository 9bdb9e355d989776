package routeconfig

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/topology/role"
)

// A route is another one if its settings, its policy or a file that it names has changed.
func TestSame(t *testing.T) {
	schema, secret := filepath.Join(t.TempDir(), "s.json"), filepath.Join(t.TempDir(), "secret")
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(schema, "{}")
	write(secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	state := func(route, policy string) State {
		t.Helper()
		settings, err := config.Load(config.Sources{Flags: map[string]string{
			"routes":         "[{queue: a, schema: '" + schema + "', handler: {http: {url: 'http://h/', secret_file: '" + secret + "'}}" + route + "}, {queue: b}]",
			"retry.policies": "{default: {delays: [" + policy + "]}}",
		}})
		if err != nil {
			t.Fatal(err)
		}
		files, err := Read(settings.Routes, role.All())
		if err != nil {
			t.Fatal(err)
		}
		return State{settings, files}
	}
	first := state("", "1s")
	want := func(name string, other State, a, b bool) {
		t.Helper()
		if first.Same(other, "a") != a || first.Same(other, "b") != b || first.Same(other, "c") {
			t.Errorf("%s: a is the same: %t, b: %t, c: %t", name, first.Same(other, "a"), first.Same(other, "b"), first.Same(other, "c"))
		}
	}
	want("nothing", state("", "1s"), true, true)
	want("a setting", state(", concurrency: 2", "1s"), false, true)
	want("a policy", state("", "2s"), false, false)
	write(schema, "true")
	want("a schema", state("", "1s"), false, true)
	write(schema, "{}")
	write(secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx")
	want("a secret", state("", "1s"), false, true)
}
