package jsontree_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/console/view/jsontree"
)

// written is a tree as JSON, with … for nodes that are left out.
func written(n jsontree.Node) string {
	if n.Open == "" {
		return n.Text
	}
	var parts []string
	for _, inner := range n.Nodes {
		text := written(inner)
		if inner.Name != "" {
			text = inner.Name + ":" + text
		}
		parts = append(parts, text)
	}
	if n.LeftOut() > 0 {
		parts = append(parts, fmt.Sprintf("…%d", n.LeftOut()))
	}
	return n.Open + strings.Join(parts, ",") + map[string]string{"{": "}", "[": "]"}[n.Open]
}

func TestParse(t *testing.T) {
	for _, test := range []struct {
		body  string
		nodes int
		depth int
		want  string
	}{
		{`{"a": [1, {"b": "\"]\\"}, [], {}, null], "c":-1.5e3}`, 100, 10, `{"a":[1,{"b":"\"]\\"},[],{},null],"c":-1.5e3}`},
		{`[12345678901234567890, "\u0000", true]`, 100, 10, `[12345678901234567890,"\u0000",true]`},
		{"\ufeff {} ", 100, 10, `{}`},
		{`{"":{"":0}}`, 100, 10, `{"":{"":0}}`},
		{`[1,[2,[3,[4,5]]],6]`, 100, 2, `[1,[2,[…2]],6]`},
		{`[1,[2,3],4,[5]]`, 4, 10, `[1,[2,…1],…2]`},
	} {
		got, isJSON := jsontree.Parse([]byte(test.body), jsontree.Limits{Nodes: test.nodes, Depth: test.depth})
		if written(got) != test.want || !isJSON {
			t.Errorf("%s: got %s, %v, want %s", test.body, written(got), isJSON, test.want)
		}
	}
	for _, body := range []string{"", "1", `"text"`, "{", `{"a":}`, "<a/>", "\xff", strings.Repeat("[", 20_000)} {
		if got, isJSON := jsontree.Parse([]byte(body), jsontree.Limits{Nodes: 9, Depth: 9}); isJSON {
			t.Errorf("%.20q is %s", body, written(got))
		}
	}
}

// A small tree is open at first. Of a larger one the outer levels are, unless they have many members.
func TestUnfolded(t *testing.T) {
	const deep = `[[[{"a": 1}]]]`
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(deep+",", n), ",") + "]" }
	for _, test := range []struct {
		body string
		want int // levels that are open
	}{
		{deep, 4},
		{list(30), 5},
		{list(45), 2},
		{list(51), 0},
	} {
		n, _ := jsontree.Parse([]byte(test.body), jsontree.Limits{Nodes: 2000, Depth: 32})
		open := 0
		for ; n.Unfolded && n.Open != ""; n = n.Nodes[0] {
			open++
		}
		if open != test.want {
			t.Errorf("%.20s: %d levels are open, want %d", test.body, open, test.want)
		}
	}
}

// FuzzParse checks that a tree without limits has each value, and that limits hold.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"c"}]}`), 3, 1)
	f.Add([]byte(`[[[[[]]]]]`), 2, 2)
	f.Fuzz(func(t *testing.T, body []byte, nodes, depth int) {
		all, isJSON := jsontree.Parse(body, jsontree.Limits{Nodes: len(body) + 1, Depth: len(body)})
		if !isJSON {
			return
		}
		if !json.Valid([]byte(written(all))) {
			t.Errorf("%q became %s", body, written(all))
		}
		limited, _ := jsontree.Parse(body, jsontree.Limits{Nodes: nodes, Depth: depth})
		if n := count(limited); n > max(nodes, 1) {
			t.Errorf("%q has %d nodes, want at most %d", body, n, nodes)
		}
	})
}

func count(n jsontree.Node) int {
	sum := 1
	for _, inner := range n.Nodes {
		sum += count(inner)
	}
	return sum
}
