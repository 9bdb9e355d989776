package markdown_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/internal/render/markdown"
)

func TestRender(t *testing.T) {
	page := "# A `page` of_two\n\nSee [its **other** part](other.md#it) and ![a picture](there.svg), [gone](gone.md) <b>x</b>.\n\n## Same, again!\n\n## Same, again!\n\n| a | |\n| --- | --- |\n| 1 | `<table>` |\n\n    code\n"
	got, err := markdown.Render(page, func(to string) string {
		if to == "gone.md" {
			return ""
		}
		return "/" + to
	})
	if err != nil {
		t.Fatal(err)
	}
	headings := []markdown.Heading{{1, "a-page-of_two", "A page of_two"}, {2, "same-again", "Same, again!"}, {2, "same-again-1", "Same, again!"}}
	if diff := cmp.Diff(headings, got.Headings); diff != "" {
		t.Error(diff)
	}
	for _, part := range []string{
		`<h1 id="a-page-of_two">`, `<a href="/other.md#it">its <strong>other</strong> part</a>`, `<img src="/there.svg" alt="a picture">`, `, gone <!--`,
		`<div class="wide" tabindex="0"><table>`, "</table></div>", "<th>a</th>\n<td></td>", `<pre tabindex="0"><code>code`, "<code>&lt;table&gt;</code>",
	} {
		if !strings.Contains(got.HTML, part) {
			t.Errorf("no %q in\n%s", part, got.HTML)
		}
	}
	if strings.Contains(got.HTML, "<b>") {
		t.Errorf("HTML of the page is left in:\n%s", got.HTML)
	}
}
