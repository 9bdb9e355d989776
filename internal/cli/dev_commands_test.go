package cli

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
)

// Every command finds the dev that runs in a folder, and what a killed one has
// recorded is there for the next.
func TestDevelopmentFromASecondTerminal(t *testing.T) {
	amqp, web := rabbittest.FreeAddress(t), rabbittest.FreeAddress(t)
	dir := filepath.Join(t.TempDir(), "it's here")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	listens := []string{"--data", "my data", "--amqp-listen", amqp, "--http-listen", web}
	d := developIn(t, dir, nil, append(listens, "--rate", "40")...)
	d.says(t, "Some orders have failed for good")
	d.says(t, "amqp://guest:guest@"+amqp+"  ") // a slash at the end is the virtual host "" for Java, Ruby and C
	d.says(t, "sqlite:my data/store.db")
	answer, err := http.Get("http://" + web + "/metrics")
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("metrics: %+v, %v", answer, err)
	}
	answer.Body.Close()
	lost := regexp.MustCompile(`replay 'message.id: (\S+) `).FindStringSubmatch(d.out.String())[1]
	for name, test := range map[string]func(*testing.T, *development, string){
		"tail": testDevTail, "discard": testDevDiscard, "explain": testDevExplain, "export and import": testDevTransfer, "mistakes": testDevMistakes,
	} {
		t.Run(name, func(t *testing.T) { test(t, d, lost) })
	}
	if err := d.signal(t, syscall.SIGKILL); err == nil {
		t.Error("killed, and no error")
	}
	recorded := d.must(t, d.in("search --count"))
	again := developIn(t, dir, nil, append(listens, "--empty")...)
	again.says(t, "Try, in a second terminal")
	if got := again.must(t, d.in("search --count")); got != recorded || recorded == "0\n" {
		t.Errorf("%s events were recorded, and after a kill there are %s", recorded, got)
	}
	if err := again.signal(t, syscall.SIGTERM); err != nil {
		t.Errorf("dev ended with %v", err)
	}
}

// in is a command line of the test's folder.
func (d *development) in(command string) string { return d.binary + " --data 'my data' " + command }

func testDevTail(t *testing.T, d *development, _ string) {
	cmd, out := exec.Command("sh", "-c", "exec "+d.in("tail 'action: published'")), &servertest.Sink{}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = d.dir, d.environ, out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	servertest.Until(t, "tail to follow", func() bool { return strings.Count(out.String(), "published") >= 3 })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("tail ended with %v", err)
	}
}

func testDevDiscard(t *testing.T, d *development, lost string) {
	about := fmt.Sprintf("'message.id: %s'", lost)
	servertest.WantWords(t, d.must(t, d.in("failed "+about)), "payment", lost)
	servertest.WantWords(t, d.must(t, d.in("failed discard "+about+" --reason 'paid by hand' --yes")), "discarded 1 failure")
	servertest.Until(t, "the failure to be no longer open", func() bool { return !strings.Contains(d.must(t, d.in("failed "+about)), lost) })
	servertest.WantWords(t, d.must(t, d.in("show "+lost)), "discarded", "paid by hand")
}

// The policies of the shop are those of the process of dev, which has no file with them.
func testDevExplain(t *testing.T, d *development, _ string) {
	servertest.WantWords(t, d.must(t, d.in("explain --error x:y --queue shop.billing")), "handles it by a route that is not in this configuration")
	servertest.WantWords(t, d.must(t, d.in("explain --error x:y --queue nosuch")), "no route has this queue")
}

func testDevTransfer(t *testing.T, d *development, lost string) {
	d.must(t, d.in("export 'action: poisoned and message.id: "+lost+"' > poisoned.ndjson"))
	servertest.WantWords(t, d.must(t, d.in("import poisoned.ndjson")), "created 0 events, 1 existed already")
	other := "WATERSHIP_AMQP_URL=embedded:// WATERSHIP_STORE_URL=sqlite:other.db "
	d.must(t, other+d.in("setup"))
	servertest.WantWords(t, d.must(t, other+d.in("import poisoned.ndjson")), "created 1 event, 0 existed already")
	servertest.WantWords(t, d.must(t, other+d.in("show "+lost)), "the payment provider answered")
}

func testDevMistakes(t *testing.T, d *development, _ string) {
	for command, want := range map[string]string{
		`search --dsl all.json`:                  "write it in KQL",
		`jobs resume 01M7Z3ATW9WRXS3FNYKEP3SJ8P`: "there is no job",
		"dev":                                    "another watership runs",
		"dev --rate 0":                           "expected orders a second",
		"dev --seed -1":                          `"-1"`,
		"dev --amqp-listen nowhere":              "expected host:port",
		"dev --amqp-listen 203.0.113.1:1 --data elsewhere": "amqp.listen 203.0.113.1:1",
		"dev --data /dev/null/x":                           "not a directory",
	} {
		if err := os.WriteFile(filepath.Join(d.dir, "all.json"), []byte(`{"match_all":{}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := d.sh(d.in(command))
		if err == nil || strings.Count(out, "\n") != 1 || !strings.Contains(out, want) {
			t.Errorf("%s: %v, %q; want one line with %q", command, err, out, want)
		}
	}
	servertest.WantWords(t, d.must(t, d.in("jobs list")), "nothing was replayed yet")
}
