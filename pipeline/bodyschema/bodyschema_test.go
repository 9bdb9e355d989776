package bodyschema

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/watershipmq/watership/retry"
)

// write writes the files of a schema and returns the name of the first.
func write(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, files[0])
}

func mustLoad(t *testing.T, files ...string) *Schema {
	t.Helper()
	s, err := Load(write(t, files...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const order = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object", "required": ["id", "total"], "additionalProperties": false,
  "properties": {
    "id": {"$ref": "parts/id.json#/$defs/id"},
    "total": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.01},
    "count": {"type": "integer", "maximum": 9007199254740993},
    "state": {"enum": ["new", "paid"]},
    "lines": {"type": "array", "items": {"type": "object", "required": ["sku"]}, "uniqueItems": true},
    "via": {"anyOf": [{"type": "string"}, {"type": "null"}]}
  }
}`

const parts = `{"$defs": {"id": {"type": "string", "pattern": "^o-[0-9]+$", "maxLength": 10}}}`

func TestCheck(t *testing.T) {
	s := mustLoad(t, "order.json", order, "parts/id.json", parts)
	for body, want := range map[string]string{
		`{"id": "o-1", "total": 0.1, "count": 9007199254740993, "state": "paid", "lines": [{"sku": 1}], "via": null}`: "",
		`{"id": "o-1", "total": 1e-2}`:            "",
		"\ufeff" + `{"id": "o-1", "total": 1}`:    "",
		`{"id": "o-1", "total": 1, "count": 3.0}`: "",

		`{"id": "o-1", "total": 0.105}`:                                  "/total: expected a multiple of 0.01 (#/properties/total/multipleOf)",
		`{"id": "o-1", "total": 1, "count": 9007199254740994}`:           "/count: expected at most 9007199254740993 (#/properties/count/maximum)",
		`{"id": "o-1", "total": 1, "count": 9007199254740992.5}`:         "/count: expected integer, got number (#/properties/count/type)",
		`{"id": "x-1", "total": 1}`:                                      "/id: expected the pattern ^o-[0-9]+$ (parts/id.json#/$defs/id/pattern)",
		`{"id": "o-1", "total": 0}`:                                      "/total: expected more than 0 (#/properties/total/exclusiveMinimum)",
		`{"id": "o-1", "total": 1, "state": "secret"}`:                   `/state: expected one of ["new","paid"] (#/properties/state/enum)`,
		`{"id": "o-1", "total": 1, "lines": [{"sku": 1}, {}]}`:           `/lines/1: expected member "sku" (#/properties/lines/items/required)`,
		`{"id": "o-1", "total": 1, "lines": [{"sku": 1}, {"sku": 1.0}]}`: "/lines: expected different items, items 0 and 1 are equal (#/properties/lines/uniqueItems)",
		`{"id": "o-1", "total": 1, "more": 1}`:                           `the body: expected no member "more" (#/additionalProperties)`,
		`{}`:                                                             `the body: expected members "id", "total" (#/required)`,
		`[]`:                                                             "the body: expected object, got array (#/type)",
		`{"id": "o-1", "total": 1, "via": 1}`: "/via: expected a value that fits one of the rules (#/properties/via/anyOf); " +
			"/via: expected string, got number (#/properties/via/anyOf/0/type); /via: expected null, got number (#/properties/via/anyOf/1/type)",

		"":       "the body is not JSON: it is empty",
		"  \n":   "the body is not JSON: it is empty",
		"<xml/>": "the body is not JSON: invalid character '<' looking for beginning of value",
		`{} {}`:  "the body is not JSON: invalid character after top-level value",
		`{"id"`:  "the body is not JSON: unexpected EOF",

		`{"id": "o-1", "total": 1e99999999}`:                        "the body has a number of more than 1000 digits, which is not checked",
		`{"id": "o-1", "total": ` + strings.Repeat("1", 1001) + `}`: "the body has a number of more than 1000 digits, which is not checked",
		strings.Repeat("[", 501):                                    "the body has more than 500 levels, and is not checked",
		"[" + strings.Repeat("1,", 100_000) + "1]":                  "the body has more than 100000 values, and is not checked",
	} {
		err := s.Check([]byte(body))
		var fault *Error
		switch {
		case want == "":
			if err != nil {
				t.Errorf("%s: %v", body, err)
			}
		case err == nil || err.Error() != "the body does not fit the schema order.json: "+want:
			t.Errorf("%.80s:\n%v\nexpected\n%s", body, err, want)
		case !retry.IsPermanent(err) || retry.ClassOf(err) != "schema" || retry.TypeOf(err) != "schema fault" || !errors.As(err, &fault) || len(fault.Faults) == 0:
			t.Errorf("%.80s: class %q, type %q", body, retry.ClassOf(err), retry.TypeOf(err))
		}
	}
}

// The text is bounded, the same for each delivery, and has no values of the body.
func TestTextOfManyFaults(t *testing.T) {
	s := mustLoad(t, "s.json", `{"additionalProperties": {"type": "integer"}}`)
	var members []string
	for i := range 900 {
		members = append(members, fmt.Sprintf(`"%s-%03d": "secret"`, strings.Repeat("é", 400), i))
	}
	body := []byte("{" + strings.Join(members, ",") + "}")
	first := s.Check(body).Error()
	if len(first) > 2000 || !strings.HasSuffix(first, "; and 895 more") || strings.Contains(first, "secret") {
		t.Errorf("%d bytes: %s", len(first), first)
	}
	for range 5 {
		if again := s.Check(body).Error(); again != first {
			t.Errorf("%s\nnow\n%s", first, again)
		}
	}
}

func TestDrafts(t *testing.T) {
	for draft, format := range map[string]bool{ // whether it asserts formats
		"https://json-schema.org/draft/2020-12/schema": false, "https://json-schema.org/draft/2019-09/schema": false,
		"http://json-schema.org/draft-07/schema#": true, "http://json-schema.org/draft-06/schema#": true, "http://json-schema.org/draft-04/schema#": true,
	} {
		s := mustLoad(t, "s.json", fmt.Sprintf(`{"$schema": %q, "format": "ipv4", "maxLength": 20}`, draft))
		if err := s.Check([]byte(`"localhost"`)); (err != nil) != format {
			t.Errorf("%s: %v", draft, err)
		}
		if s.Check([]byte(`"127.0.0.1"`)) != nil || s.Check([]byte(`"127.0.0.1 and more text"`)) == nil {
			t.Errorf("%s does not check", draft)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside.json")
	if err := os.WriteFile(outside, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	linked := write(t, "s.json", `{"$ref": "link.json"}`)
	if err := os.Symlink(outside, filepath.Join(filepath.Dir(linked), "link.json")); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		filepath.Join(t.TempDir(), "none.json"):                         "none.json: no such file",
		write(t, "s.json", `{"type": "text"}`):                          "/type: expected",
		write(t, "s.json", `{`):                                         "s.json: expected JSON: unexpected EOF",
		write(t, "s.json", `{"pattern": "(?=a)"}`):                      "/pattern: expected the format regex",
		write(t, "s.json", `{"$ref": "https://example.com/a.json"}`):    "https://example.com/a.json: expected a file in the directory",
		write(t, "s.json", `{"$schema": "https://example.com/schema"}`): "https://example.com/schema: expected a file in the directory",
		write(t, "s.json", `{"$ref": "../a.json"}`):                     "expected a file in the directory of the schema, or beneath it",
		write(t, "s.json", `{"$ref": "file:///etc/passwd"}`):            "file:///etc/passwd: expected a file in the directory of the schema",
		write(t, "s.json", `{"$ref": "missing.json"}`):                  "missing.json: no such file",
		write(t, "s.json", `{"$ref": "#/$defs/none"}`):                  "none",
		write(t, "s.json", `{"$ref": "#"}`):                             "lead back",
		write(t, "s.json", doublings(40)):                               "takes more than",
		linked:                                                          "link.json: path escapes",
	} {
		if _, err := Load(file); err == nil || !strings.HasPrefix(err.Error(), "schema "+file+": ") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v\nexpected %q", err, want)
		}
	}
}

// doublings is a schema of which each part checks the next one twice.
func doublings(n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(`"p%d": {"allOf": [{"$ref": "#/$defs/p%[2]d"}, {"$ref": "#/$defs/p%[2]d"}]}`, i, i+1)
	}
	return fmt.Sprintf(`{"$ref": "#/$defs/p0", "$defs": {%s, "p%d": {}}}`, strings.Join(parts, ","), n)
}

// A recursive schema has levels as the body has, and its digest depends on all files.
func TestDigest(t *testing.T) {
	name := write(t, "tree.json", `{"type": "object", "additionalProperties": {"$ref": "tree.json"}, "properties": {"leaf": {"$ref": "leaf.json"}}}`, "leaf.json", `{"type": "number"}`)
	digests := map[string]bool{}
	for _, leaf := range []string{`{"type": "number"}`, `{"type": "string"}`, `{"type": "number"}`} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(name), "leaf.json"), []byte(leaf), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		digests[s.Digest()] = true
		if err := s.Check([]byte(`{"a": {"b": {"leaf": 1}}}`)); (err == nil) != strings.Contains(leaf, "number") {
			t.Errorf("%s: %v", leaf, err)
		}
	}
	if len(digests) != 2 {
		t.Errorf("digests %v", digests)
	}
}

// The largest body with nothing but faults takes little memory.
func TestBounds(t *testing.T) {
	s := mustLoad(t, "s.json", `{"items": {"type": "string", "minLength": 2}}`)
	body := []byte("[" + strings.Repeat("1,", 99_990) + "1]")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := s.Check(body); err == nil || !strings.HasSuffix(err.Error(), "; and 99986 more") {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 200 {
		t.Errorf("allocated %d MiB", allocated)
	} else {
		t.Logf("allocated %d MiB", allocated)
	}
}

// A nested body for which a schema has exponentially many alternatives does not fit, and its
// check ends, in bounded memory.
func TestSlowSchema(t *testing.T) {
	for name, alternatives := range map[string]string{
		"2020-12": `{"anyOf": [{"properties": {"a": {"$ref": "#"}}, "required": ["b"]}, {"properties": {"a": {"$ref": "#"}}, "required": ["c"]}]}`,
		"not":     `{"not": {"allOf": [{"additionalProperties": {"$ref": "#"}}, {"patternProperties": {"a": {"$ref": "#"}}}, {"not": {"required": ["b"]}}]}}`,
		"draft 7": `{"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"x": {"oneOf": [{"properties": {"a": {"$ref": "#/definitions/x"}}, "required": ["b"]}, {"dependencies": {"a": {"additionalProperties": {"$ref": "#/definitions/x"}}}, "required": ["c"]}]}}, "$ref": "#/definitions/x"}`,
		"items":   `{"anyOf": [{"prefixItems": [{"$ref": "#"}], "minItems": 2}, {"items": {"$ref": "#"}, "contains": {"$ref": "#"}, "minItems": 2}]}`,
	} {
		s := mustLoad(t, "s.json", alternatives)
		open, end := `{"a":`, "}"
		if name == "items" {
			open, end = "[", "]"
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := s.Check([]byte(strings.Repeat(open, 400) + "{}" + strings.Repeat(end, 400)))
		runtime.ReadMemStats(&after)
		if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 300 {
			t.Errorf("%s: allocated %d MiB", name, allocated)
		}
		if err == nil || !strings.HasSuffix(err.Error(), "the check takes more than 24330 steps") {
			t.Errorf("%s: %.300v", name, err)
		}
		if err := s.Check([]byte(`{"b": 1, "a": {"b": 2}}`)); name != "items" && name != "not" && err != nil {
			t.Errorf("%s: a later check: %v", name, err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	dir := b.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "parts"), 0o700); err != nil {
		b.Fatal(err)
	}
	for name, text := range map[string]string{"order.json": order, "parts/id.json": parts} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	s, err := Load(filepath.Join(dir, "order.json"))
	if err != nil {
		b.Fatal(err)
	}
	body := []byte(`{"id": "o-1", "total": 12.35, "count": 3, "state": "paid", "lines": [{"sku": 1}, {"sku": 2}, {"sku": 3}], "via": null}`)
	for b.Loop() {
		if err := s.Check(body); err != nil {
			b.Fatal(err)
		}
	}
}
