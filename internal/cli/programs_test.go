package cli

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/server/servertest"
)

// A program of a replay that would use up the memory of the server ends the replay only.
func TestMemoryOfProgramsEndsNoServer(t *testing.T) {
	d := develop(t, nil, "--rate", "20")
	d.says(t, "--dry-run\n")
	server := regexp.MustCompile(`http://[^/\s]+`).FindString(d.out.String())
	plan := func(program string) (status int, text string) {
		t.Helper()
		response, err := http.Post(server+"/api/v1/replays/plan", "application/json",
			strings.NewReader(`{"query": "action: published", "limit": 1, "target": {"kind": "queue", "queue": "shop.billing"}, "transform": "`+program+`"}`))
		if err != nil {
			t.Fatalf("%s: %v", program, err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	servertest.Until(t, "a message to be planned", func() bool {
		status, text := plan(".")
		return status == http.StatusOK && strings.Contains(text, `"matched":1`)
	})
	for _, program := range []string{"null | .[536870911] = 1 | {}", "reduce range(40) as $i ([0]; [.,.]) | flatten"} {
		if status, text := plan(program); status != http.StatusConflict || !strings.Contains(text, "change the program") {
			t.Errorf("%s: %d, %s", program, status, text)
		}
	}
	if status, text := plan("."); status != http.StatusOK {
		t.Errorf("%d, %s", status, text)
	}
}
