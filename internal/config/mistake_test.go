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
		"the line of broken YAML":     {"amqp:\n  url: [\n", "w.yaml:2: expected YAML: did not find expected node content"},
		"both lines of a duplicate":   {"log: {}\nlog: {}\n", `w.yaml:2: expected YAML: mapping key "log" already defined at line 1`},
		"a merge key":                 {"a: &a {}\nlog:\n  <<: *a\n", "w.yaml:3: expected YAML: expected no merge key; write the fields out"},
		"a second document":           {"log: {}\n---\nlog: {}\n", "w.yaml: expected YAML: expected one document"},
		"a key written twice":         {"amqp: {url: amqp://a}\namqp.url: amqp://u:p@b\n", `w.yaml:2: amqp.url: "amqp://u:xxxxx@b": expected each key once`},
		"a list for a value":          {"source: [a]\n", `w.yaml:1: source: "a": expected one value`},
		"a value for everything":      {"loud\n", `w.yaml: "loud": expected keys such as source`},
		"a tab":                       {"log:\n\tlevel: info\n", "w.yaml:2: expected YAML: found character that cannot start any token (a tab? YAML indents with spaces)"},
		"the nearest in another case": {"AMQP: {}\n", "w.yaml:1: AMQP: is not known; the nearest is amqp"},
		"the nearest group":           {"indx: {}\n", "w.yaml:1: indx: is not known; the nearest is index"},
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

// A mistake of one field of a policy hides none of its hours, windows and time zone.
func TestAllMistakesOfAPolicy(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "w.yaml", `retry: {policies: {p: {
  delays: [1s],
  give_up_after: 0,
  at: ["25:00", "3"],
  time_zone: Europe/Berlino,
  no_attempts: [
  {days: [sunday]},
  {from: "2:00", to: "06:00"},
  {dates: tomorrow}]}}}
`)
	_, err := Load(Sources{File: "w.yaml"})
	if err == nil {
		t.Fatal("no mistake")
	}
	for _, want := range []string{
		`w.yaml:3: retry.policies.p.give_up_after: "0": expected a duration`, `w.yaml:4: retry.policies.p.at[0]: expected an hour such as 03:00`,
		`w.yaml:4: retry.policies.p.at[1]: expected an hour`, `w.yaml:5: retry.policies.p.time_zone: "Europe/Berlino": expected the name of a time zone`,
		`w.yaml:7: retry.policies.p.no_attempts[0].days: "sunday": expected mon, tue,`, `w.yaml:8: retry.policies.p.no_attempts[1].from: "2:00": expected an hour such as 22:00`,
		`w.yaml:9: retry.policies.p.no_attempts[2].dates: "tomorrow": expected a date such as`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in\n%v", want, err)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 7 {
		t.Errorf("%d mistakes in\n%v", n, err)
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
