package jsondiff

import (
	"slices"
	"testing"
)

func TestCompare(t *testing.T) {
	for _, test := range []struct {
		before, after string
		ignored       []string
		want          []string
	}{
		{`{"a":1,"b":[1,{"c":"x"}]}`, `{"b":[1.0,{"c":"x"}],"a":1e0}`, nil, nil},
		{`{"a":1}`, `{"a":2}`, nil, []string{".a: 1 → 2"}},
		{`{"a":1,"b":2}`, `{"b":2,"c":null}`, nil, []string{".a: removed 1", ".c: added null"}},
		{`[1,2]`, `[1]`, nil, []string{".[1]: removed 2"}},
		{`[{"id":1,"v":1},{"id":2,"v":2}]`, `[{"id":3,"v":1},{"id":4,"v":5}]`, []string{".[].id"}, []string{".[1].v: 2 → 5"}},
		{`{"a b":{"id":1}}`, `{"a b":{"id":2}}`, nil, []string{`.["a b"].id: 1 → 2`}},
		{`{"a b":{"id":1}}`, `{"a b":{"id":2}}`, []string{`.["a b"].id`}, nil},
		{`{"a":{"id":1}}`, `{"a":{"id":2}}`, []string{".a"}, nil},
		{`{"a":1}`, `{"a":{"b":1}}`, nil, []string{`.a: 1 → {"b":1}`}},
		{`{"a":[]}`, `{"a":{}}`, nil, []string{`.a: [] → {}`}},
		{`9007199254740993`, `9007199254740992`, nil, []string{".: 9007199254740993 → 9007199254740992"}},
		{`"<&>"`, `null`, nil, []string{`.: "<&>" → null`}},
	} {
		before, err := Decode([]byte(test.before))
		if err != nil {
			t.Fatal(err)
		}
		after, err := Decode([]byte(test.after))
		if err != nil {
			t.Fatal(err)
		}
		var ignored []Path
		for _, text := range test.ignored {
			path, err := ParsePath(text)
			if err != nil || path.String() != text {
				t.Fatalf("%s: %s, %v", text, path, err)
			}
			ignored = append(ignored, path)
		}
		var got []string
		for _, d := range Compare(before, after, ignored, 10) {
			got = append(got, d.String())
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s, %s without %q: %q, want %q", test.before, test.after, test.ignored, got, test.want)
		}
	}
	if got := Compare([]any{true, true, true}, []any{}, nil, 2); len(got) != 2 {
		t.Errorf("beyond the limit: %v", got)
	}
}

func TestBadPaths(t *testing.T) {
	for _, text := range []string{"", "a", ".", ".a.", ".a[", ".a[x]", `.["a`, ". a", ".a[-1]"} {
		if path, err := ParsePath(text); err == nil {
			t.Errorf("%q is %s", text, path)
		}
	}
	for _, text := range []string{"", "1 2", "{"} {
		if value, err := Decode([]byte(text)); err == nil {
			t.Errorf("%q is %v", text, value)
		}
	}
}

func FuzzParsePath(f *testing.F) {
	f.Add(`.a["b c"][].d[12]`)
	f.Add(`.["\u00ff\""]`)
	f.Fuzz(func(t *testing.T, text string) {
		path, err := ParsePath(text)
		if err != nil {
			return
		}
		again, err := ParsePath(path.String())
		if err != nil || !slices.Equal(again, path) {
			t.Errorf("%q is %q: %v", text, path, err)
		}
	})
}
