package cli

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// In a terminal the forms that are exact elsewhere are harmless, too.
func TestExactFormsInATerminal(t *testing.T) {
	t.Parallel()
	a := newSeededFile(t)
	a.keep(t, a.event(1, schemas.Published, hostileEvent), a.event(2, schemas.Published, sameMessage(2), body("two\r\nlines\n")))
	path, err := servertest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"search|-o|csv", "search|--by|message.id|-o|csv", "export|*"} {
		out := inTerminal(t, a.environ, exec.Command(path, strings.Split(line, "|")...)).end(exitOK)
		wantInert(t, line, out)
		if !strings.Contains(out, "evil") {
			t.Errorf("%s: %s", line, out)
		}
	}
	raw := inTerminal(t, a.environ, exec.Command(path, "show", "--raw", a.event(1, schemas.Published).EventID)).end(exitFailed)
	wantInert(t, "show --raw", raw)
	servertest.WantWords(t, raw, "has characters that a terminal obeys")
	if out := inTerminal(t, a.environ, exec.Command(path, "show", "--raw", "m-2")).end(exitOK); out != "two\r\nlines\n" {
		t.Errorf("show --raw: %q", out)
	}
}
