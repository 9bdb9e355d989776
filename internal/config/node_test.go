package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseYAML(t *testing.T) {
	origin := Origin{Place: File, Name: "w.yaml"}
	at := func(line int, n node) node { n.Origin = origin.at(line); return n }
	word := func(line int, s string) node { return at(line, node{Kind: text, Text: s}) }
	for name, test := range map[string]struct {
		yaml string
		want node
	}{
		"nothing":             {"", at(0, node{})},
		"a comment":           {"# nothing\n", at(0, node{})},
		"null":                {"~\n", at(0, node{})},
		"text":                {"loud\n", word(0, "loud")},
		"quoted text":         {"'~'\n", word(0, "~")},
		"a number as written": {"0x10\n", word(0, "0x10")},
		"a mapping":           {"a: 1\nb:\n  c: x\n", at(0, node{Kind: mapping, Fields: []field{{"a", word(1, "1")}, {"b", at(2, node{Kind: mapping, Fields: []field{{"c", word(3, "x")}}})}}})},
		"an empty mapping":    {"{}", at(0, node{Kind: mapping})},
		"a list":              {"- a\n- [b]\n-\n", at(0, node{Kind: sequence, Items: []node{word(1, "a"), at(2, node{Kind: sequence, Items: []node{word(2, "b")}}), at(3, node{})}})},
		"an alias":            {"a: &x [1]\nb: *x\n", at(0, node{Kind: mapping, Fields: []field{{"a", at(1, node{Kind: sequence, Items: []node{word(1, "1")}})}, {"b", at(2, node{Kind: sequence, Items: []node{word(1, "1")}})}}})},
		"JSON":                {`{"a": ["b"]}`, at(0, node{Kind: mapping, Fields: []field{{"a", at(1, node{Kind: sequence, Items: []node{word(1, "b")}})}}})},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseYAML([]byte(test.yaml), origin)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseYAMLRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a: [":                "did not find expected node content",
		"a: 1\na: 2\n":        `mapping key "a" already defined`,
		"a: 1\n---\nb: 2\n":   "expected one document",
		"a: &a [*a]\n":        "contains itself",
		"a: *b\n":             "unknown anchor",
		"\tx: 1\n":            "cannot start any token",
		"a: {}\nb:\n  <<: {}": "expected no merge key",
		"a: \xff\n":           "UTF-8",
	} {
		if _, err := parseYAML([]byte(text), Origin{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// Only values of a file have lines.
func TestLinesAreOfFiles(t *testing.T) {
	for place, want := range map[Place]int{File: 7, Environment: 0, Flag: 0, Default: 0} {
		if got := (Origin{Place: place}).at(7).Line; got != want {
			t.Errorf("place %d: line %d, want %d", place, got, want)
		}
	}
}

func TestOrigin(t *testing.T) {
	for want, origin := range map[string]Origin{
		"default":          {},
		"from amqp.url":    {Place: Derived, Name: "amqp.url"},
		"w.yaml":           {Place: File, Name: "w.yaml"},
		"w.yaml:3":         {Place: File, Name: "w.yaml", Line: 3},
		"WATERSHIP_SOURCE": {Place: Environment, Name: "WATERSHIP_SOURCE"},
		"--source":         {Place: Flag, Name: "--source"},
	} {
		if got := origin.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestMistake(t *testing.T) {
	flag := Origin{Place: Flag, Name: "--log-level"}
	for want, mistake := range map[string]Mistake{
		`--log-level: log.level: "loud": expected debug`: {Key: "log.level", Value: "loud", Origin: flag, Expected: "expected debug"},
		`--log-level: log.level: expected debug`:         {Key: "log.level", Origin: flag, Expected: "expected debug"},
		`--log-level: expected debug`:                    {Origin: flag, Expected: "expected debug"},
		`log.colour: is not known`:                       {Key: "log.colour", Origin: Origin{Place: Flag, Name: "log.colour"}, Expected: "is not known"},
		`w.yaml:2: log: "a\nb": expected one value`:      {Key: "log", Value: "a\nb", Origin: Origin{Place: File, Name: "w.yaml", Line: 2}, Expected: "expected one value"},
	} {
		if got := mistake.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// Mistakes come by place, those of the file by line, and otherwise as they were found.
func TestMistakesAreSorted(t *testing.T) {
	of := func(key string, place Place, line int) Mistake {
		return Mistake{Key: key, Origin: Origin{Place: place, Line: line}}
	}
	mistakes := Mistakes{of("f", Flag, 0), of("d", Environment, 0), of("c", File, 9), of("e", Environment, 0), of("b", File, 2), of("a", Default, 0)}
	mistakes.sort()
	var keys string
	for _, m := range mistakes {
		keys += m.Key
	}
	if keys != "abcdef" {
		t.Errorf("the order is %s", keys)
	}
}

// Variables that are not settings: those of tests and of completion scripts are
// left alone, any other with the prefix is a mistake.
func TestVariables(t *testing.T) {
	ignored := []string{"WATERSHIP_TEST_X=1", "WATERSHIP_ACTIVE_HELP=1", "PATH=/bin", "watership_source=x", "XWATERSHIP_SOURCE=x", "WATERSHIP", ""}
	c, err := Load(Sources{Environ: ignored})
	if err != nil || c.Source != "" {
		t.Errorf("source %q, %v", c.Source, err)
	}
	for variable, want := range map[string]string{
		"WATERSHIP_SOURC=x":        "WATERSHIP_SOURC: is not known; the nearest is WATERSHIP_SOURCE",
		"WATERSHIP_CONFIGS=x":      "WATERSHIP_CONFIGS: is not known; the nearest is WATERSHIP_CONFIG",
		"WATERSHIP_AMQP_URLS=":     "WATERSHIP_AMQP_URLS: is not known; the nearest is WATERSHIP_AMQP_URL",
		"WATERSHIP_LOG__LEVEL=inf": "WATERSHIP_LOG__LEVEL: is not known; the nearest is WATERSHIP_LOG_LEVEL",
	} {
		if _, err := Load(Sources{Environ: []string{variable}}); err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", variable, err, want)
		}
	}
}

// The file of a flag goes before the one of the variable, of which the last counts.
func TestFileNames(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"flag", "first", "last"} {
		write(t, name, "source: "+name+"\n")
	}
	environ := []string{FileVariable + "=first", FileVariable + "=last"}
	for want, sources := range map[string]Sources{"flag": {File: "flag", Environ: environ}, "last": {Environ: environ}, "": {}} {
		if c, err := Load(sources); err != nil || c.Source != want {
			t.Errorf("the file is %q, want %q: %v", c.Source, want, err)
		}
	}
}
