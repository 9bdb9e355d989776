package replaypage_test

import (
	"maps"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/internal/console/view/replaypage"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/replayer"
)

// everything are all fields of the form.
func everything() url.Values {
	return url.Values{
		"target": {"exchange"}, "exchange": {"shop"}, "routing_key": {"order.again"}, "ids": {"a 1", "b'2"}, "group": {"no table #"},
		"set_header": {"a=1\nb:int=2"}, "remove_header": {"c"}, "clear_headers": {"yes"}, "keep_header": {"tenant"}, "set_property": {"type=x y"}, "remove_property": {"app_id"},
		"keep_reply_to": {"yes"}, "again": {"yes"}, "unchecked_routes": {"yes"}, "rate": {"2.5"}, "limit": {"7"}, "steps": {"1,5,20"}, "stop_if": {"failed > 2%\nfailed timeout > 0"}, "reason": {"fixed; done"},
	}
}

func read(t *testing.T, fields url.Values, filter eventfilter.Filter) replaypage.Form {
	t.Helper()
	form, err := replaypage.ReadForm(fields, filter)
	if err != nil {
		t.Fatal(err)
	}
	return form
}

// A form that is sent again is the same.
func TestFields(t *testing.T) {
	form := read(t, everything(), eventfilter.Filter{})
	if diff := cmp.Diff(everything(), form.Fields()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := replays.Changes{
		SetHeaders: []string{"a=1", "b:int=2"}, RemoveHeaders: []string{"c"}, ClearHeaders: true, KeepHeaders: []string{"tenant"},
		SetProperties: []string{"type=x y"}, RemoveProperties: []string{"app_id"}, KeepReplyTo: true,
	}
	if diff := cmp.Diff(want, form.Changes); diff != "" || form.Rate != 2.5 || form.Limit != 7 {
		t.Errorf("%s%+v", diff, form)
	}
	if got := slices.Sorted(maps.Keys(read(t, url.Values{"q": {"x"}, "canary": {"3"}}, eventfilter.Filter{}).Fields())); !slices.Equal(got, []string{"target"}) {
		t.Errorf("defaults are sent: %q", got)
	}
	for _, name := range []string{"rate", "limit", "canary"} {
		if _, err := replaypage.ReadForm(url.Values{name: {"x"}}, eventfilter.Filter{}); err == nil || !strings.Contains(err.Error(), name+` "x": expected a number`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, wrong := range []url.Values{{"steps": {"1, x"}}, {"steps": {"20 5"}}, {"stop_if": {"2%"}}} {
		if _, err := replaypage.ReadForm(wrong, eventfilter.Filter{}); err == nil || !strings.Contains(err.Error(), "expected") {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	for _, rate := range []string{"NaN", "Inf"} {
		if _, err := replaypage.ReadForm(url.Values{"rate": {rate}}, eventfilter.Filter{}); err == nil {
			t.Errorf("a rate of %s is accepted", rate)
		}
	}
	if read(t, url.Values{"target": {"queue"}, "queue": {"a"}, "reason": {"x"}}, eventfilter.Filter{}).HasOptions() || !form.HasOptions() {
		t.Error("options are folded, or not")
	}
}

// A shell reads from the command what the form has.
func TestCommand(t *testing.T) {
	fields := everything()
	fields.Del("ids")
	form := read(t, fields, eventfilter.Filter{Query: `headers.tenant: "it's $HOME"`, From: "2026-05-04 03:00", To: "now", Zone: "Europe/Berlin"})
	want := []string{
		"replay", `headers.tenant: "it's $HOME"`, "--from", "2026-05-04 03:00", "--to", "now", "--group", "no table #", "--to-exchange", "shop", "--key", "order.again",
		"--set-header", "a=1", "--set-header", "b:int=2", "--remove-header", "c", "--clear-headers", "--keep-headers", "tenant", "--set-property", "type=x y", "--remove-property", "app_id",
		"--drop-reply-to=false", "--again", "--unchecked-routes", "--rate", "2.5", "--limit", "7", "--ramp", "1,5,20", "--stop-if", "failed > 2%", "--stop-if", "failed timeout > 0", "--reason", "fixed; done", "in Europe/Berlin",
	}
	if got := runCommand(t, form.Command(3)); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	byID := read(t, url.Values{"ids": {"a 1\n b'2 "}, "target": {"failed_queue"}}, eventfilter.Filter{Since: "1h", Zone: "Europe/Berlin"})
	want = []string{"replay", "--since", "1h", "--to-failed-queue", "--ids", "-", "--expect", "2", "--yes", "in", "a 1", "b'2"}
	if got := runCommand(t, byID.Command(2)); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A query that looks like a flag is none.
func TestCommandOfAQueryLikeAFlag(t *testing.T) {
	got := runCommand(t, read(t, url.Values{"reason": {"x"}}, eventfilter.Filter{Query: "--yes"}).Command(1))
	if want := []string{"replay", "--reason", "x", "--", "--yes", "in"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// runCommand returns the arguments of a command, its time zone and its input.
func runCommand(t *testing.T, command string) []string {
	t.Helper()
	const function = `watership() { printf '%s\n' "$@" "in $TZ"; case "$*" in *--yes*) cat;; esac; }; `
	out, err := exec.Command("sh", "-c", "TZ=; "+function+command).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
}

func TestJobInWords(t *testing.T) {
	started := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	job := replaypage.Job{Job: replays.Job{
		State: replayer.Running, Running: true, Total: 100, Sent: 20, Skipped: 3, Failed: 2, Speed: 5, Started: &started, Updated: started.Add(time.Minute),
		Target: replays.Target{Kind: "queue", Queue: "repair"}, Changes: replays.Changes{ClearHeaders: true, KeepHeaders: []string{"tenant"}, SetProperties: []string{"type=x"}},
	}}
	if job.Label() != "running" || job.Left() != 75 || job.TimeLeft() != 15*time.Second || job.Duration() != time.Minute || job.To() != "queue repair" {
		t.Errorf("%s, %d left in %s, after %s, to %s", job.Label(), job.Left(), job.TimeLeft(), job.Duration(), job.To())
	}
	if got, want := job.Changed(), []string{"all headers removed except tenant", "property set: type=x", "reply_to removed"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	job.Transform = ".body.a = 1"
	if got := job.Changed(); !slices.Contains(got, "transformed by the program .body.a = 1") {
		t.Errorf("%q", got)
	}
	job.Running, job.CanResume = false, true
	if job.Label() != "interrupted" || job.Class() != "warn" || job.TimeLeft() != 0 {
		t.Errorf("a killed job is %s (%s), %s left", job.Label(), job.Class(), job.TimeLeft())
	}
	job.State, job.CanResume = replayer.Done, false
	if job.Class() != "bad" || !job.IsFinished() {
		t.Errorf("done, with messages that could not be sent: %s", job.Class())
	}
}
