package indent

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzText checks that indentation changes only white space, equals that of json.Indent,
// and respects the limit.
func FuzzText(f *testing.F) {
	for _, text := range []string{
		`{"a": [1, {"b": "\"]\\"}, [], {}, null], "c":-1.5e3}`, ` [ 1 , 2 ] `, `[`, "\ufeff{}", `<a x="1"><b>t</b><c/><!-- n --></a>`, `<a><![CDATA[x]]>`, "",
	} {
		f.Add([]byte(text), 1000)
	}
	f.Fuzz(func(t *testing.T, body []byte, most int) {
		most = min(max(most, 0), 1<<16)
		got, whole := Text(body, most)
		if len(got) > most {
			t.Fatalf("%d bytes of at most %d", len(got), most)
		}
		if !whole || bytes.HasPrefix(body, []byte("\ufeff")) {
			return
		}
		if withoutSpace(got) != withoutSpace(string(body)) {
			t.Errorf("%q has become %q", body, got)
		}
		var want bytes.Buffer
		if IsJSON(body) && strings.Count(string(body), "[")+strings.Count(string(body), "{") <= maxIndent {
			if err := json.Indent(&want, bytes.TrimSpace(body), "", "  "); err != nil || want.String() != got {
				t.Errorf("got\n%s\nwant\n%s, %v", got, want.String(), err)
			}
		}
	})
}

func withoutSpace(text string) string { return strings.Join(strings.Fields(text), "") }
