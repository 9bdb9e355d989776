package config

import (
	"errors"
	"os"
	"testing"
)

// Any file gives mistakes, or a complete configuration.
func FuzzFile(f *testing.F) {
	mistakes, err := os.ReadFile("testdata/mistakes.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", "~", full, string(mistakes), "a: &a [*a]", "? {a: b}\n: c", "- - -", "routes: [~, [], {bind: ~}]", "log:\n  <<: {level: info}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		file := t.TempDir() + "/w.yaml"
		write(t, file, content)
		c, err := Load(Sources{File: file})
		var mistakes Mistakes
		switch {
		case err != nil && (!errors.As(err, &mistakes) || err.Error() == ""):
			t.Errorf("got error %v, expected Mistakes", err)
		case err == nil && (c.AMQP.URL.IsZero() || c.Retry.Policies[c.Retry.Default].Validate() != nil):
			t.Errorf("incomplete: %+v", c)
		}
	})
}
