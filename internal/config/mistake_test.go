package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	golden := filepath.Join("testdata", "mistakes.txt")
	_, err := Load(Sources{
		File: "testdata/mistakes.yaml",
		Environ: []string{
			"WATERSHIP_AMQP_URI=amqp://shop:s3cret@rabbit/",
			"WATERSHIP_STORE_URL=ftp://shop:s3cret@store",
			"WATERSHIP_RETRY_POLICIES={",
			"WATERSHIP_TEST_AMQP_URL=not ours",
			"PATH=/bin",
		},
		Flags: map[string]string{"log.level": "loud", "log.colour": "red"},
	})
	var mistakes Mistakes
	if !errors.As(err, &mistakes) {
		t.Fatalf("got error %v, expected Mistakes", err)
	}
	got := err.Error() + "\n"
	if flag.Arg(0) == "update" { // go test ./internal/config -args update
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("mistakes (-want +got):\n%s", diff)
	}
}

func TestMistakesName(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"the line of broken YAML":   {"amqp:\n  url: [\n", "w.yaml:2: expected YAML: did not find expected node content"},
		"both lines of a duplicate": {"log: {}\nlog: {}\n", `w.yaml:2: expected YAML: mapping key "log" already defined at line 1`},
		"a merge key":               {"a: &a {}\nlog:\n  <<: *a\n", "w.yaml:3: expected YAML: expected no merge key; write the fields out"},
		"a second document":         {"log: {}\n---\nlog: {}\n", "w.yaml: expected YAML: expected one document"},
		"a key written twice":       {"amqp: {url: amqp://a}\namqp.url: amqp://u:p@b\n", `w.yaml:2: amqp.url: "amqp://u:xxxxx@b": expected each key once`},
		"a list for a value":        {"source: [a]\n", `w.yaml:1: source: "a": expected one value`},
		"a value for everything":    {"loud\n", `w.yaml: "loud": expected keys such as source`},
		"the nearest group":         {"indx: {}\n", "w.yaml:1: indx: is not known; the nearest is index"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "w.yaml", test.file)
			_, err := Load(Sources{File: "w.yaml"})
			if err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestMissingFileIsAMistake(t *testing.T) {
	_, err := Load(Sources{Environ: []string{FileVariable + "=none.yaml"}})
	want := "none.yaml: expected a configuration file: no such file or directory"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func write(t testing.TB, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
