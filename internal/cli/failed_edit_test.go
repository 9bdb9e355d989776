package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

// A failed message is edited as JSON and sent to its queue: what was not edited stays as it
// was, and the copy names the failure.
func TestFailedEdit(t *testing.T) { played(t, testFailedEdit) }

func testFailedEdit(t *testing.T, a *playback) {
	failed := a.event(schemas.Poisoned, 1)
	failed.Envelope.Headers = amqp.Table{"n": int16(7), "tenant": "acme"}
	failed.Envelope.Body = []byte(`{ "order": 1, "big": 12345678901234567890 }`)
	failed.Fingerprint, failed.BodySize = failed.Envelope.Fingerprint(), len(failed.Envelope.Body)
	a.keep(failed, a.event(schemas.Published, 2))

	text, err := transform.JSON(failed.Envelope)
	if err != nil {
		t.Fatal(err)
	}
	var indented strings.Builder
	if err := json.NewEncoder(&indented).Encode(text); err != nil {
		t.Fatal(err)
	}
	servertest.WantRun(t, a.Run(t, "failed", "edit", "m-1", "--file", servertest.WriteFile(t, "same.json", indented.String()), "--yes"), exitFailed, "was not edited: nothing was sent")
	printed := a.Run(t, "failed", "edit", "m-1", "--print")
	servertest.WantRun(t, printed, exitOK, "\n  \"exchange\": ")
	for _, same := range []string{printed.Out, strings.ReplaceAll(printed.Out, "acme", `\u0061cme`)} {
		servertest.WantRun(t, a.Run(t, "failed", "edit", "m-1", "--file", servertest.WriteFile(t, "same.json", same), "--yes"), exitFailed, "was not edited: nothing was sent")
	}
	servertest.WantRun(t, a.Run(t, "failed", "edit", "m-1", "--print", "--file", "x"), exitUsage, "--print and --file cannot be combined")
	for name, test := range map[string]struct{ text, want string }{
		"no JSON":        {"{", "is no JSON object"},
		"another id":     {strings.Replace(string(text), `"m-1"`, `"m-9"`, 1), `property "message_id" cannot be set`},
		"a large body":   {`{"body":"` + strings.Repeat("x", transform.MaxProgram) + `"}`, "expected at most"},
		"another member": {strings.Replace(string(text), `"exchange"`, `"exchang"`, 1), `has the member "exchang"`},
	} {
		r := a.Run(t, "failed", "edit", "m-1", "--file", servertest.WriteFile(t, "edited.json", test.text), "--yes")
		if r.Code == exitOK || !strings.Contains(r.Out+r.Err, test.want) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	servertest.WantRun(t, a.Run(t, "failed", "edit", "m-2", "--file", "-", "--yes"), exitFailed, `no message "m-2" has failed for good`)

	edited := strings.Replace(string(text), `"acme"`, `"acme2"`, 1)
	servertest.WantRun(t, a.Run(t, "failed", "edit", "m-1", "--file", servertest.WriteFile(t, "edited.json", edited), "--yes", "--reason", "a typing error"), exitOK, "1 message to send", "sent 1 of 1")
	d := a.Broker.Take(t, a.Queue, 1)[0]
	if string(d.Body) != string(failed.Envelope.Body) || d.Headers["tenant"] != "acme2" || d.Headers["n"] != int16(7) || d.Headers["watership-replay-of"] != failed.EventID {
		t.Errorf("arrived: %s, %v", d.Body, d.Headers)
	}
}

// A failure is edited as it failed, after each of its edits.
func TestFailedEditAgain(t *testing.T) { played(t, testFailedEditAgain) }

func testFailedEditAgain(t *testing.T, a *playback) {
	failed := a.event(schemas.Poisoned, 1)
	a.keep(failed)
	for attempt := 1; attempt <= 3; attempt++ {
		printed := a.Run(t, "failed", "edit", "m-1", "--print")
		servertest.WantRun(t, printed, exitOK, fmt.Sprintf(`"order": %d`, attempt))
		edited := strings.ReplaceAll(printed.Out, fmt.Sprintf(`"order": %d`, attempt), fmt.Sprintf(`"order": %d`, attempt+1))
		servertest.WantRun(t, a.Run(t, "failed", "edit", "m-1", "--file", servertest.WriteFile(t, "edited.json", edited), "--yes"), exitOK, "sent 1 of 1")
		d := a.Broker.Take(t, a.Queue, 1)[0]
		if want := fmt.Sprintf(`{"order":%d}`, attempt+1); string(d.Body) != want {
			t.Fatalf("arrived: %s, want %s", d.Body, want)
		}
		replayed, again := a.event(schemas.Replayed, attempt), a.event(schemas.Poisoned, attempt+1)
		replayed.Envelope.Properties.MessageID, again.Envelope.Properties.MessageID = "m-1", "m-1"
		replayed.Failure, replayed.BodyIn, replayed.Envelope.Body = schemas.Failure{}, schemas.BodyInPublished, nil
		again.Fingerprint = again.Envelope.Fingerprint()
		for _, e := range []*schemas.Event{&replayed, &again} {
			e.Replay, e.ReplayOf = d.Headers["watership-replay"].(string), d.Headers["watership-replay-of"].(string)
		}
		replayed.EventID = wire.DerivedID(replayed.Replay, replayed.ReplayOf)
		a.Broker.Take(t, schemas.Topology{Prefix: a.Prefix}.Log(), 1) // the event is in the store
		a.keep(replayed, again)
		servertest.WantRun(t, a.Run(t, "show", "m-1"), exitOK, "changed by replays", "watership show "+again.Fingerprint)
	}
}

// A message that failed at two queues is edited for the one that is named.
func TestFailedEditOfOneQueue(t *testing.T) { played(t, testFailedEditOfOneQueue) }

func testFailedEditOfOneQueue(t *testing.T, a *playback) {
	another := a.Broker.Queue(t, nil)
	failed, elsewhere := a.event(schemas.Poisoned, 1), a.event(schemas.Poisoned, 1)
	elsewhere.EventID, elsewhere.Queue, elsewhere.Failure.Message = elsewhere.EventID+"b", another, "of another queue"
	a.keep(failed, elsewhere)
	both := []string{failed.Queue, another}
	slices.Sort(both)
	edited := servertest.WriteFile(t, "edited.json", strings.Replace(a.Run(t, "failed", "edit", "m-1", "--queue", another, "--print").Out, `"order": 1`, `"order": 2`, 1))
	servertest.WantRun(t, a.Run(t, "failed", "edit", "m-1", "--file", edited, "--yes"), exitFailed, "message m-1 has failed at "+both[0]+" and "+both[1]+": give --queue")
	servertest.WantRun(t, a.Run(t, "failed", "edit", "m-1", "--queue", "nowhere", "--file", edited, "--yes"), exitFailed, `no message "m-1" has failed for good at queue nowhere`)
	servertest.WantRun(t, a.Run(t, "failed", "edit", "m-1", "--queue", another, "--file", edited, "--yes"), exitOK, "sent 1 of 1")
	if d := a.Broker.Take(t, another, 1)[0]; string(d.Body) != `{"order":2}` {
		t.Errorf("arrived: %s", d.Body)
	}
}

// No report about another queue resolves the failure of a message that was edited to go there: it
// is discarded.
func TestFailedEditOfTheRoute(t *testing.T) { played(t, testFailedEditOfTheRoute) }

func testFailedEditOfTheRoute(t *testing.T, a *playback) {
	failed := a.event(schemas.Poisoned, 1)
	a.keep(failed)
	another := a.Broker.Queue(t, nil)
	a.declare(another, "another", nil)
	printed := a.Run(t, "failed", "edit", "m-1", "--print")
	edited := strings.Replace(printed.Out, fmt.Sprintf(`"routing_key": %q`, failed.Envelope.RoutingKey), `"routing_key": "another"`, 1)
	_, serving := a.WithRoles(t, "index")
	servertest.WantRun(t, a.Run(t, "failed", "edit", "m-1", "--file", servertest.WriteFile(t, "edited.json", edited), "--yes"), exitOK, "sent 1 of 1", "discarded the failure, since the message was sent elsewhere\n")
	a.Broker.Take(t, another, 1)
	if e := a.Eventually(t, "action: discarded", 1)[0]; e.ReplayOf != failed.EventID || !strings.Contains(e.Failure.Message, "sent elsewhere") {
		t.Errorf("the event is %+v", e)
	}
	serving.Stop(t)
}

// A message is printed while RabbitMQ is away.
func TestFailedEditPrintsWithoutRabbitMQ(t *testing.T) {
	a := newPlayback(t)
	a.keep(a.event(schemas.Poisoned, 1))
	a.Environ = append(a.Environ, "WATERSHIP_AMQP_URL=amqp://127.0.0.1:1/")
	if r := a.Run(t, "failed", "edit", "m-1", "--print"); r.Code != exitOK || !strings.Contains(r.Out, `"order": 1`) || r.Err != "" {
		t.Errorf("%+v", r)
	}
}

// The editor of the environment gets the message, and the edited one is sent after a question.
func TestFailedEditInAnEditor(t *testing.T) {
	t.Parallel() // most of it is waiting
	a := play(t, servertest.Around(t, rabbittest.Embedded(t)).Install(t, servertest.Nobody))
	a.keep(a.event(schemas.Poisoned, 1))
	s := onTerminal(t, a.Installation, []string{"EDITOR=false"}, "failed", "edit", "m-1")
	servertest.WantWords(t, s.end(exitFailed), `the editor "false": exit status 1`)
	s = onTerminal(t, a.Installation, []string{`EDITOR=sed -i 's/"order": 1/"order": 42/'`}, "failed", "edit", "m-1")
	s.expect("Send 1 message? [y/N]")
	s.press("y\n")
	servertest.WantWords(t, s.end(exitOK), "sent 1 of 1")
	if d := a.Broker.Take(t, a.Queue, 1)[0]; string(d.Body) != `{"order":42}` {
		t.Errorf("arrived: %s", d.Body)
	}
}

// Two people edit a failure: the one who sends later learns that nothing was sent, and keeps the
// edited message.
func TestFailedEditOfWhatIsSentInTheMeantime(t *testing.T) {
	t.Parallel() // most of it is waiting
	a := play(t, servertest.Around(t, rabbittest.Embedded(t)).Install(t, servertest.Nobody))
	failed := a.event(schemas.Poisoned, 1)
	a.keep(failed)
	edited := withOrder(t, failed, 7)
	s := onTerminal(t, a.Installation, []string{`EDITOR=sed -i 's/"order": 1/"order": 42/'`}, "failed", "edit", "m-1")
	s.expect("Send 1 message? [y/N]")
	servertest.WantRun(t, a.Run(t, "failed", "edit", "m-1", "--file", edited, "--yes"), exitOK, "sent 1 of 1")
	s.press("y\n")
	screen := s.end(exitFailed)
	servertest.WantWords(t, screen, "nothing was sent", "failed edit --file takes it")
	kept := regexp.MustCompile(`the edited message is in (\S+):`).FindStringSubmatch(screen)
	if kept == nil {
		t.Fatal(screen)
	}
	if text, err := os.ReadFile(kept[1]); err != nil || !strings.Contains(string(text), `"order": 42`) {
		t.Errorf("%v: %s", err, text)
	}
	_ = os.RemoveAll(filepath.Dir(kept[1]))
	if d := a.Broker.Take(t, a.Queue, 1)[0]; string(d.Body) != `{"order":7}` {
		t.Errorf("arrived: %s", d.Body)
	}
}

// withOrder returns a file with the message of an event, with another body.
func withOrder(t *testing.T, e schemas.Event, order int) string {
	t.Helper()
	e.Envelope.Body = fmt.Appendf(nil, `{"order":%d}`, order)
	text, err := transform.JSON(e.Envelope)
	if err != nil {
		t.Fatal(err)
	}
	return servertest.WriteFile(t, "edited.json", string(text))
}

// A failure that is resolved is refused before the editor opens, and no text names a flag that
// the command does not have.
func TestFailedEditOfWhatIsResolved(t *testing.T) { played(t, testFailedEditOfWhatIsResolved) }

func testFailedEditOfWhatIsResolved(t *testing.T, a *playback) {
	failed := a.event(schemas.Poisoned, 1)
	discarded := a.event(schemas.Discarded, 1)
	discarded.ReplayOf = failed.EventID
	elsewhere := a.event(schemas.Poisoned, 2)
	elsewhere.Queue = "gone"
	a.keep(failed, discarded, elsewhere)
	for _, args := range [][]string{{"--file", "there is none", "--yes"}, {"--file", "-", "--yes"}} {
		got := a.Run(t, append([]string{"failed", "edit", "m-1"}, args...)...)
		if servertest.WantRun(t, got, exitFailed, "message m-1 has no open failure: failed and discarded since"); strings.Contains(got.Err, "--") {
			t.Error(got.Err)
		}
	}
	edited := withOrder(t, elsewhere, 7)
	got := a.Run(t, "failed", "edit", "m-2", "--file", edited, "--yes")
	servertest.WantRun(t, got, exitFailed, "would reach no queue: bring the routes back, or go on with --unchecked-routes")
	got = a.Run(t, "failed", "edit", "m-2", "--file", edited, "--yes", "--unchecked-routes")
	servertest.WantRun(t, got, exitFailed, "1 message could not be sent")
}

// One failure is sent first; a replay with --yes goes on only if it was handled.
func TestFailedRetry(t *testing.T) { played(t, testFailedRetry) }

func testFailedRetry(t *testing.T, a *playback) {
	a.keep(a.event(schemas.Poisoned, 1), a.event(schemas.Poisoned, 2), a.event(schemas.Published, 3), a.event(schemas.Poisoned, 4))
	servertest.WantRun(t, a.Run(t, "failed", "retry", "message.id: m-*", "--dry-run"), exitOK, "3 messages to send")
	for _, args := range [][]string{{"retry", "queue: nobody", "--yes"}, {"retry", "queue: nobody", "--dry-run"}, {"resolve", "--query", "queue: nobody", "--reason", "x", "--yes"}, {"discard", "queue: nobody", "--reason", "x", "--yes"}} {
		servertest.WantRun(t, a.Run(t, append([]string{"failed"}, args...)...), exitFailed, "no unresolved failure matches")
	}
	for _, target := range []string{"--to-queue=other", "--to-failed-queue=false"} {
		servertest.WantRun(t, a.Run(t, "failed", "retry", target, "--yes"), exitUsage, "use 'watership replay' for another target")
	}
	groups := a.Run(t, "failed", "-o", "json").Out
	var listed []struct{ ID string }
	if err := json.Unmarshal([]byte(groups), &listed); err != nil || len(listed) != 1 {
		t.Fatalf("%v: %s", err, groups)
	}
	servertest.WantRun(t, a.Run(t, "failed", "retry", listed[0].ID, "--dry-run"), exitOK, "3 messages to send")
	servertest.WantRun(t, a.Run(t, "failed", "retry", listed[0].ID, "aaaaaaaa", "--dry-run"), exitFailed, "no unresolved failure matches")
	servertest.WantRun(t, a.Run(t, "failed", "retry", "--group", listed[0].ID, "--dry-run"), exitFailed, "watership failed retry "+listed[0].ID)
	servertest.WantRun(t, a.Run(t, "failed", "retry", "--yes", "--outcome-wait", "1ms"), exitFailed, "3 messages to send", "stopped after the first 1 message")
	if job := onlyJob(t, a.Installation); job.Sent != 1 || job.Target.Kind != replayer.ToFailedQueue {
		t.Errorf("the job: %+v", job)
	}
	if d := a.Broker.Take(t, a.Queue, 1)[0]; d.MessageId != "m-1" {
		t.Errorf("arrived: %s", d.MessageId)
	}
}

// handled is a system whose failures are all resolved.
type handled struct{ backend }

func (handled) Do(context.Context, *operation.Operation, any, any) error { return nil }

// The new routing key may lead to the queue that failed, which has handled the message already.
func TestFailedEditOfTheRouteThatIsHandled(t *testing.T) {
	var out strings.Builder
	e := failureEdit{replay: replay{action: action{Streams: terminal.Streams{Out: &out}}, names: []string{"test:1"}}}
	if err := e.discardFailure(t.Context(), handled{}); err != nil || out.Len() > 0 {
		t.Errorf("%v, %q", err, out.String())
	}
}
