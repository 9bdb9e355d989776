package servertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/schemas"
)

// Result is the output of a command and its exit code.
type Result struct {
	Out, Err string
	Code     int
}

// Run runs a command, also one that fails.
func (i *Installation) Run(t *testing.T, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, i.Binary, append(args, "--config", i.Config)...)
	cmd.Env = i.Environ
	if i.Server != nil && !slices.Contains([]string{"setup", "import"}, args[0]) {
		cmd.Args, cmd.Env = append([]string{i.Binary}, args...), i.Server
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("watership %s did not end: %s%s", strings.Join(args, " "), out.String(), errs.String())
	}
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	return Result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// Must runs a command that has to succeed, and returns its output.
func (i *Installation) Must(t *testing.T, args ...string) string {
	t.Helper()
	r := i.Run(t, args...)
	if r.Code != 0 {
		t.Fatalf("watership %s: exit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Out, r.Err)
	}
	return r.Out
}

// find runs a search until no index is missing that was created just now.
func (i *Installation) find(t *testing.T, query string, args ...string) string {
	t.Helper()
	var r Result
	Until(t, "the store to search "+query, func() bool {
		r = i.Run(t, append([]string{"search", query}, args...)...)
		return r.Code == 0 || !strings.Contains(r.Err, "missing shards")
	})
	if r.Code != 0 {
		t.Fatalf("search %s: %s", query, r.Err)
	}
	return r.Out
}

// Search returns the documents that a query finds.
func (i *Installation) Search(t *testing.T, query string) []schemas.Event {
	t.Helper()
	var events []schemas.Event
	lines := bufio.NewScanner(strings.NewReader(i.find(t, query, "--limit", "0", "-o", "ndjson")))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		event, err := schemas.ParseDocument(lines.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, event)
	}
	return events
}

// Eventually waits until a query finds a number of events, and reads them once.
func (i *Installation) Eventually(t *testing.T, query string, want int) []schemas.Event {
	t.Helper()
	Until(t, fmt.Sprintf("%d events of %s", want, query), func() bool {
		n, err := strconv.Atoi(strings.TrimSpace(i.find(t, query, "--count")))
		if err != nil {
			t.Fatal(err)
		}
		return n >= want
	})
	found := i.Search(t, query)
	if len(found) != want {
		t.Fatalf("query %s finds %d events, want %d", query, len(found), want)
	}
	return found
}

// Findings returns the findings of doctor, each with its remedy.
func (i *Installation) Findings(t *testing.T) (list []doctor.Finding, code int) {
	t.Helper()
	r := i.Run(t, "doctor", "-o", "json")
	if err := json.Unmarshal([]byte(r.Out), &list); err != nil {
		t.Fatalf("%v\n%s%s", err, r.Out, r.Err)
	}
	return list, r.Code
}

// Saying returns the first finding with a verdict whose check and detail have all words; nil if
// none has.
func Saying(list []doctor.Finding, v doctor.Verdict, words ...string) *doctor.Finding {
	for _, f := range list {
		all := f.Verdict == v
		for _, word := range words {
			all = all && strings.Contains(string(f.Check)+": "+f.Detail, word)
		}
		if all {
			return &f
		}
	}
	return nil
}

// WantFinding wants a finding as Saying has it, with words of its remedy.
func WantFinding(t *testing.T, list []doctor.Finding, v doctor.Verdict, remedy string, words ...string) {
	t.Helper()
	found := Saying(list, v, words...)
	if found == nil || !strings.Contains(found.Instruction(), remedy) {
		t.Errorf("no %s with %q and the remedy %q in %+v", v, words, remedy, list)
	}
}

// Nobody is the address of a handler that refuses connections.
const Nobody = "http://127.0.0.1:1/"

// WantRun wants an exit code, and words in the output of a command.
func WantRun(t *testing.T, r Result, code int, words ...string) {
	t.Helper()
	all := r.Out + r.Err
	if r.Code != code {
		t.Errorf("exit code %d, want %d:\n%s", r.Code, code, all)
	}
	WantWords(t, all, words...)
}

// WantWords wants each of some words in a text.
func WantWords(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%q is not in:\n%s", word, text)
		}
	}
}
