package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// playback is an installation whose store has events, and whose queues have
// names but nobody who takes from them.
type playback struct {
	*servertest.Installation
	t        *testing.T
	channel  *amqp.Channel
	sequence int64
}

func newPlayback(t *testing.T) *playback {
	t.Helper()
	return play(t, servertest.Install(t, rabbittest.NewestServer(t), servertest.Nobody))
}

// playedOnce is for what takes long, and is the same through the API.
func playedOnce(t *testing.T, test func(t *testing.T, a *playback)) {
	t.Parallel() // most of it is waiting
	test(t, play(t, servertest.Around(t, rabbittest.Embedded(t)).Install(t, servertest.Nobody)))
}

// played runs a test of messages that were recorded earlier: on the servers themselves and through
// the API. What the replayer does on each broker and store is tested with it.
func played(t *testing.T, test func(t *testing.T, a *playback)) {
	t.Parallel() // most of it is waiting
	for name, server := range map[string]bool{"direct": false, "api": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := play(t, servertest.Around(t, rabbittest.Embedded(t)).Install(t, servertest.Nobody))
			if server {
				s := serveAPI(t, config.Sources{File: a.Installation.Config})
				a.Server = s.environ(t, access.Token{Name: "ann", Role: access.Operator, Bodies: true})
			}
			test(t, a)
		})
	}
}

// playedUnderPolicies is played, and on brokers as operators have them.
func playedUnderPolicies(t *testing.T, test func(t *testing.T, a *playback)) {
	played(t, test)
	rabbittest.WithPolicies(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		test(t, play(t, servertest.Install(t, b, servertest.Nobody)))
	})
}

// playedDirectly is played without the API, for what concerns the process that sends.
func playedDirectly(t *testing.T, test func(t *testing.T, a *playback)) {
	servertest.OnEither(t, func(t *testing.T, p servertest.Parts) { test(t, play(t, p.Install(t, servertest.Nobody))) })
}

func play(t *testing.T, i *servertest.Installation) *playback {
	t.Helper()
	a := &playback{Installation: i, t: t}
	if i.Broker.Policies {
		servertest.WantRun(t, a.Run(t, "setup"), exitFailed, "limits what must not be dropped", "watership-unlimited")
	} else {
		a.Must(t, "setup")
	}
	a.channel = a.Broker.Channel(t)
	return a
}

// queue declares a queue and binds it to the exchange.
func (a *playback) declare(queue, key string, args amqp.Table) {
	a.t.Helper()
	if _, err := a.channel.QueueDeclare(queue, true, false, false, false, args); err != nil {
		a.t.Fatal(err)
	}
	a.Broker.DeleteQueue(a.t, queue)
	if err := a.channel.QueueBind(queue, key, a.Exchange, false, nil); err != nil {
		a.t.Fatal(err)
	}
}

func (a *playback) event(action schemas.Action, n int) schemas.Event {
	a.sequence++
	e := schemas.Event{
		Action: action, TimeSource: wire.TimeOfEvent, Sequence: a.sequence, Source: "test", VHost: "/",
		Envelope: schemas.Envelope{
			Exchange: a.Exchange, RoutingKey: "order.created", Body: fmt.Appendf(nil, `{"order":%d}`, n),
			Properties: schemas.Properties{MessageID: fmt.Sprint("m-", n), DeliveryMode: amqp.Persistent},
		},
	}
	e.Version, e.Fingerprint, e.BodySize = header.Version, e.Envelope.Fingerprint(), len(e.Envelope.Body)
	e.EventID, e.Time = fmt.Sprintf("%s-%d", a.Prefix, a.sequence), time.Now()
	if action != schemas.Published {
		e.Queue, e.Attempt, e.Message, e.Failure.Message = a.Queue, 3, "i-"+e.EventID, "no stock"
	}
	return e
}

// keep stores events by way of a store of its own.
func (a *playback) keep(events ...schemas.Event) {
	a.t.Helper()
	store := openStore(a.t, a.Store, a.Stream)
	for len(events) > 0 {
		some := events[:min(len(events), 1000)]
		events = events[len(some):]
		docs := make([]schemas.Document, len(some))
		for i, e := range some {
			docs[i] = schemas.DocumentFormat{}.Document(e)
		}
		results, err := store.Create(a.t.Context(), docs)
		if err != nil {
			a.t.Fatal(err)
		}
		for _, result := range results {
			if result.Status != eventstore.Created {
				a.t.Fatalf("storing an event: %+v", result)
			}
		}
	}
	if err := store.Refresh(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
}

// onlyJob is the one job that there is.
func onlyJob(t *testing.T, i *servertest.Installation) replayer.Job {
	t.Helper()
	var jobs []replayer.Job
	if err := json.Unmarshal([]byte(i.Must(t, "jobs", "list", "-o", "json")), &jobs); err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs (%v)", len(jobs), err)
	}
	return jobs[0]
}

// complete returns the completions that a shell gets.
func (a *playback) complete(args ...string) string {
	a.t.Helper()
	cmd := exec.Command(a.Binary, append([]string{"__complete"}, args...)...)
	cmd.Env = append(os.Environ(), "WATERSHIP_CONFIG="+a.Config)
	out, err := cmd.Output()
	if err != nil {
		a.t.Fatal(err)
	}
	return string(out)
}

// TestReplayCommand looks before it sends, sends, and leaves a job behind.
func TestReplayCommand(t *testing.T) { playedUnderPolicies(t, testReplayCommand) }

func testReplayCommand(t *testing.T, a *playback) {
	a.keep(a.event(schemas.Published, 1), a.event(schemas.Poisoned, 1), a.event(schemas.Poisoned, 2), a.event(schemas.Poisoned, 3))
	poisoned := []string{"replay", "action: poisoned and queue: " + a.Queue, "--to-failed-queue"}
	with := func(more ...string) []string { return append(poisoned[:len(poisoned):len(poisoned)], more...) }

	servertest.WantRun(t, a.Run(t, with("--dry-run")...), 0, "3 messages to send", "     3  queue "+a.Queue, "such as m-1  poisoned  no stock")
	servertest.WantRun(t, a.Run(t, with()...), exitUsage, "--yes")
	servertest.WantRun(t, a.Run(t, with("--yes", "--expect", "2")...), exitFailed, "3 messages match, 2 expected: nothing was changed")
	servertest.WantRun(t, a.Run(t, "jobs", "list"), 0, "nothing was replayed yet")
	if n := a.Broker.Len(t, a.Queue); n != 0 {
		t.Fatalf("%d messages were sent", n)
	}

	agreed := with("--yes", "--expect", "3", "--reason", "stock is back")
	if a.Server == nil { // else it is the name of the token
		agreed = append(agreed, "--operator", "ann")
	}
	servertest.WantRun(t, a.Run(t, agreed...), 0, "sent 3 of 3, job ")
	job := onlyJob(t, a.Installation)
	if job.State != replayer.Done || job.Operator != "ann" || job.Reason != "stock is back" || job.Sent != 3 ||
		!strings.Contains(job.Query, "watership.queue: "+a.Queue) || job.Target.Kind != replayer.ToFailedQueue {
		t.Errorf("the job is %+v", job)
	}
	servertest.WantRun(t, a.Run(t, "jobs", "list"), 0, job.ID, "done", "ann", "the queue that failed")
	servertest.WantRun(t, a.Run(t, "jobs", "show", job.ID), 0, "stock is back", "sent         3", "failed       0")
	servertest.WantRun(t, a.Run(t, "jobs", "resume", job.ID), exitFailed, "is done: there is nothing left to do")
	servertest.WantRun(t, a.Run(t, "jobs", "cancel", job.ID), exitFailed, "is done")
	servertest.WantRun(t, a.Run(t, "jobs", "show", "nobody"), exitFailed, `there is no job "nobody"`)
	servertest.Until(t, "the job to be offered", func() bool { // a busy server offers nothing in time
		return strings.HasPrefix(a.complete("jobs", "show", ""), job.ID+"\tdone, 3 of 3\n")
	})
	for _, verb := range []string{"resume", "cancel"} {
		if got := a.complete("jobs", verb, ""); strings.Contains(got, job.ID) {
			t.Errorf("a job that is done is offered to %s", verb)
		}
	}
	if d := a.Broker.Take(t, a.Queue, 3); d[0].MessageId != "m-1" || d[2].MessageId != "m-3" {
		t.Errorf("arrived: %s %s %s", d[0].MessageId, d[1].MessageId, d[2].MessageId)
	}
}

// Changes of headers and properties are in the preview, in the job and in the message. A
// request loses its reply_to unless the operator keeps it.
func TestReplayChanges(t *testing.T) { played(t, testReplayChanges) }

func testReplayChanges(t *testing.T, a *playback) {
	request := a.event(schemas.Published, 1)
	request.Envelope.Properties.ReplyTo = "replies"
	request.Envelope.Headers = amqp.Table{"tenant": "acme", "x-retry": int64(3)}
	request.Fingerprint = request.Envelope.Fingerprint()
	a.keep(request)
	replay := []string{"replay", "message.id: m-1", "--to-queue", a.Queue, "--again", "--yes"}
	with := func(more ...string) []string { return append(replay[:len(replay):len(replay)], more...) }

	servertest.WantRun(t, a.Run(t, with("--dry-run", "--drop-reply-to=false")...), 0, "1  ask for a reply, and their clients get another one")
	servertest.WantRun(t, a.Run(t, with("--keep-headers", "tenant", "--set-property", "priority=4", "--remove-property", "type")...), 0,
		"headers removed: all except tenant", "property set: priority=4", "property removed: type",
		"1  ask for a reply, and are sent without reply_to (--drop-reply-to=false keeps it)", "sent 1 of 1")
	d := a.Broker.Take(t, a.Queue, 1)[0]
	if d.ReplyTo != "" || d.Priority != 4 || d.Type != "" || d.Headers["tenant"] != "acme" || d.Headers["x-retry"] != nil {
		t.Errorf("%+v", d)
	}
	servertest.WantRun(t, a.Run(t, "jobs", "show", onlyJob(t, a.Installation).ID), 0, "headers removed all except tenant", "reply_to     removed")

	servertest.WantRun(t, a.Run(t, with("--drop-reply-to=false", "--clear-headers", "--set-header", "x-retry:int=0")...), 0, "headers removed: all\n", "sent 1 of 1")
	d = a.Broker.Take(t, a.Queue, 1)[0]
	if d.ReplyTo != "replies" || d.Headers["tenant"] != nil || d.Headers["x-retry"] != int64(0) {
		t.Errorf("%+v", d)
	}
}

// Parked copies stay in their queue when their failures are replayed, discarded or resolved, and each command says so.
func TestParkedCopiesAreNamed(t *testing.T) { playedOnce(t, testParkedCopiesAreNamed) }

func testParkedCopiesAreNamed(t *testing.T, a *playback) {
	a.keep(a.event(schemas.Poisoned, 1), a.event(schemas.Poisoned, 2), a.event(schemas.Poisoned, 3))
	parking := a.Queue + ".poison"
	a.declare(parking, "parked", nil)
	if err := a.channel.Publish("", parking, false, false, amqp.Publishing{MessageId: "m-1"}); err != nil {
		t.Fatal(err)
	}
	servertest.Until(t, "the copy is in the queue", func() bool { return a.Broker.Len(t, parking) == 1 })
	parked := "queue " + parking + " keeps 1 parked message: delete them at the broker when nobody needs them\n"
	servertest.WantRun(t, a.Run(t, "replay", "message.id: m-1", "--to-failed-queue", "--yes"), 0, parked, "sent 1 of 1")
	a.WithRoles(t, "index") // which records what is discarded
	servertest.WantRun(t, a.Run(t, "failed", "discard", "message.id: m-2", "--reason", "test order", "--yes"), 0, "discarded 1 failure\n"+parked)
	servertest.WantRun(t, a.Run(t, "failed", "resolve", "--query", "message.id: m-3", "--reason", "test order", "--yes"), 0, "discarded 1 failure, resolved ", parked)
}

// TestReplaySelections: by ids, from a file and from standard input, and to
// other places.
func TestReplaySelections(t *testing.T) { played(t, testReplaySelections) }

func testReplaySelections(t *testing.T, a *playback) {
	repair := a.Prefix + "-repair"
	a.declare(repair, "repair", nil)
	first, second := a.event(schemas.Poisoned, 1), a.event(schemas.Poisoned, 2)
	a.keep(first, second, a.event(schemas.Poisoned, 3))
	_, serving := a.WithRoles(t, "index")
	file := filepath.Join(t.TempDir(), "ids")
	if err := os.WriteFile(file, []byte("m-1\n\n "+second.Fingerprint+" \n"+first.EventID+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	servertest.WantRun(t, a.Run(t, "replay", "--ids", file, "--to-queue", repair, "--yes"), 0, "sent 2 of 2")
	slips := servertest.WriteFile(t, "slips.txt", "m-1\nnobody\nm-11\n")
	servertest.WantRun(t, a.Run(t, "replay", "--ids", slips, "--to-queue", repair, "--dry-run"), 0, "       2  not found: m-11, nobody\n")
	none := servertest.WriteFile(t, "none", "nobody\n")
	servertest.WantRun(t, a.Run(t, "replay", "--ids", none, "--to-queue", repair, "--yes"), exitFailed, "not found: nobody", "no message of these ids was found: nothing was sent")
	servertest.WantRun(t, a.Run(t, "replay", "--ids", none, "--to-queue", repair, "--yes", "--expect", "0"), exitOK, "not found: nobody")
	if d := a.Broker.Take(t, repair, 2); d[0].MessageId != "m-1" || d[1].MessageId != "m-2" {
		t.Errorf("arrived: %s %s", d[0].MessageId, d[1].MessageId)
	}
	a.Eventually(t, "action: replayed", 2)
	servertest.WantRun(t, a.Run(t, "replay", "*", "--to-exchange", a.Exchange, "--key", "repair", "--yes", "--limit", "1", "--set-header", "by:int=7"), 0,
		"2  left out: beyond the limit", "header set: by:int=7", "sent 1 of 1")
	if d := a.Broker.Take(t, repair, 1); d[0].MessageId != "m-1" || d[0].RoutingKey != "repair" || d[0].Headers["by"] != int64(7) {
		t.Errorf("arrived: %+v", d[0])
	}
	a.Eventually(t, "action: replayed", 3)
	serving.Stop(t)
	a.keep(a.event(schemas.RetryScheduled, 4), a.event(schemas.Handled, 4)) // which failed once, and then did not
	servertest.WantRun(t, a.Run(t, "replay", "--group", "no stock", "--dry-run"), 0, "3 messages to send")
	for _, args := range [][]string{
		{"replay"},
		{"replay", "*", "--to-queue", "a", "--to-failed-queue"},
		{"replay", "*", "--key", "a", "--yes"},
		{"replay", "*", "--yes", "--set-header", "watership-queue=a"},
		{"replay", "--ids", "-", "--yes"},
		{"replay", "*", "--to-queue", "", "--yes"},
		{"replay", "*", "--to-exchange", "", "--yes"},
		{"replay", "*", "--ids", "", "--yes"},
		{"replay", "*", "--group", " ", "--yes"},
		{"replay", "*", "--since", "", "--yes"},
		{"failed", "discard", "*", "--ids", "", "--reason", "x", "--yes"},
		{"replay", "*", "--limit", "-1"},
		{"replay", "nosuchfield: 1", "--yes"},
		{"jobs", "list", "everything"},
		{"jobs", "lits"},
	} {
		servertest.WantRun(t, a.Run(t, args...), exitUsage, "watership: ")
	}
}

// TestReplayToNowhere: the broker is asked before anything is sent, and what it
// refuses is named.
func TestReplayToNowhere(t *testing.T) { played(t, testReplayToNowhere) }

func testReplayToNowhere(t *testing.T, a *playback) {
	a.declare(a.Prefix+"-full", "order.created", amqp.Table{"x-max-length": 0, "x-overflow": "reject-publish"})
	a.keep(a.event(schemas.Poisoned, 1), a.event(schemas.Poisoned, 2))
	servertest.WantRun(t, a.Run(t, "replay", "*", "--to-queue", a.Prefix+"-gone", "--yes"), exitFailed, "GONE", "2 messages would reach no queue")
	servertest.WantRun(t, a.Run(t, "replay", "*", "--to-exchange", a.Prefix+"-gone", "--yes"), exitFailed, "GONE", "2 messages would reach no queue")
	for _, target := range [][]string{{"--to-queue", a.Prefix + ".poison"}, {"--to-exchange", a.Prefix + ".events"}} {
		servertest.WantRun(t, a.Run(t, "replay", "*", target[0], target[1], "--yes", "--unchecked-routes"), exitUsage, "one of Watership's own")
	}
	servertest.WantRun(t, a.Run(t, "jobs", "list"), 0, "nothing was replayed yet")
	servertest.WantRun(t, a.Run(t, "replay", "*", "--to-queue", a.Prefix+"-gone", "--yes", "--unchecked-routes"), exitFailed,
		"not checked", "not sent: message m-1", "not sent: message m-2", "sent 0 of 2", "2 messages could not be sent")
	job := onlyJob(t, a.Installation)
	if job.State != replayer.Done || job.Failed != 2 || len(job.Failures) != 2 {
		t.Errorf("the job is %+v", job)
	}
	servertest.WantRun(t, a.Run(t, "jobs", "show", job.ID), 0, "failed       2", "not sent", "message m-2", "does not exist")
	servertest.WantRun(t, a.Run(t, "replay", "*", "--yes"), exitFailed, "a queue refused the message", "sent 0 of 2")
}

// TestDiscardWithoutARecord: while nobody stores what was discarded, it is not sent.
func TestDiscardWithoutARecord(t *testing.T) { playedOnce(t, testDiscardWithoutARecord) }

func testDiscardWithoutARecord(t *testing.T, a *playback) {
	a.keep(a.event(schemas.Poisoned, 1), a.event(schemas.Poisoned, 2))
	servertest.WantRun(t, a.Run(t, "failed", "discard", "message.id: m-1", "--reason", "paid by hand", "--yes"), 0,
		"discarded 1 failure\nthe store does not have 1 event of these yet: run watership serve\n")
	replay := []string{"replay", "action: poisoned", "--to-failed-queue", "--yes"}
	servertest.WantRun(t, a.Run(t, replay...), exitFailed, "nothing was sent: failures may have been handled or discarded in 1 event that the store does not have")
	serving := a.Serve(t)
	a.Eventually(t, "action: discarded", 1)
	servertest.WantRun(t, a.Run(t, replay...), 0, "1  left out: failed and discarded since", "sent 1 of 1")
	serving.Stop(t)
}

// TestReplayIntoABrokenPipe: a replay whose preview nobody can read sends nothing
// and fails; a look alone ends quietly.
func TestReplayIntoABrokenPipe(t *testing.T) { played(t, testReplayIntoABrokenPipe) }

func testReplayIntoABrokenPipe(t *testing.T, a *playback) {
	a.keep(a.event(schemas.Poisoned, 1))
	for last, code := range map[string]int{"--yes": exitFailed, "--dry-run": exitOK} {
		reading, writing, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(a.Binary, "replay", "*", last, "--config", a.Config)
		var errs strings.Builder
		cmd.Stdout, cmd.Stderr = writing, &errs
		_ = reading.Close()
		_ = cmd.Run()
		_ = writing.Close()
		if got := cmd.ProcessState.ExitCode(); got != code || strings.Contains(errs.String(), "nothing was sent") != (code != exitOK) {
			t.Errorf("%s: exit code %d, want %d\n%s", last, got, code, errs.String())
		}
	}
	servertest.WantRun(t, a.Run(t, "jobs", "list"), 0, "nothing was replayed yet")
}

// TestCanary sends a few, and the rest only where those were handled.
func TestCanary(t *testing.T) { played(t, testCanary) }

func testCanary(t *testing.T, a *playback) {
	for n := range 20 {
		a.keep(a.event(schemas.Poisoned, n+1))
	}
	r := a.Run(t, "replay", "action: poisoned", "--to-failed-queue", "--yes", "--canary", "5", "--outcome-wait", "500ms")
	servertest.WantRun(t, r, exitFailed, "of the first 5 messages: 0 handled, 0 failed, 5 not reported", "stopped after the first 5 messages")
	job := onlyJob(t, a.Installation)
	if n := a.Broker.Len(t, a.Queue); n != 5 || job.State != replayer.Paused || job.Sent != 5 {
		t.Fatalf("%d messages were sent; the job is %+v", n, job)
	}
	servertest.WantRun(t, a.Run(t, "jobs", "resume", job.ID), exitUsage, "jobs resume asks before it sends", "--yes")
	servertest.WantRun(t, a.Run(t, "jobs", "cancel", job.ID, "--reason", "nobody listens"), 0, "cancelled job "+job.ID+", which had sent 5 of 20")
	servertest.WantRun(t, a.Run(t, "jobs", "resume", job.ID), exitFailed, "is cancelled, which cannot be undone: start another replay for the messages that it has not sent")
	servertest.WantRun(t, a.Run(t, "jobs", "show", job.ID), 0, "cancelled", "nobody listens")
}

// TestRamp stops after a step whose outcomes are not known, and a resume goes on once they can be told from the next ones.
func TestRamp(t *testing.T) { played(t, testRamp) }

func testRamp(t *testing.T, a *playback) {
	for n := range 20 {
		a.keep(a.event(schemas.Poisoned, n+1))
	}
	ramp := []string{"replay", "action: poisoned", "--to-failed-queue", "--stop-if", "failed > 2%", "--outcome-wait", "1ms"}
	servertest.WantRun(t, a.Run(t, append(ramp, "--dry-run")...), exitOK, "schedule: in steps up to 1 %, 5 %, 20 %, 100 %, each judged before the next",
		"schedule: paused if failed > 2%, or if a step cannot be judged after 1 ms")
	const why = "stopped after the first 3 messages: cannot be judged: 3 of 3 messages have no outcome after 1 ms"
	stopped := a.Run(t, append(ramp, "--ramp", "15", "--yes")...)
	job := onlyJob(t, a.Installation)
	servertest.WantRun(t, stopped, exitFailed, "of the first 3 messages: 0 handled, 0 failed, 3 not reported", why, "go on with: watership jobs resume "+job.ID)
	servertest.WantRun(t, a.Run(t, "jobs", "show", job.ID), 0, "state        paused", why, "step         up to 3: 3 sent, 0 handled, 0 failed, paused: cannot be judged")
	servertest.WantRun(t, a.Run(t, "jobs", "resume", job.ID, "--yes"), exitFailed, "the record of 3 messages that job "+job.ID+" sent is not in the store", "run watership serve")
}

// TestReplayDSL keeps the raw query in the job, which finds the same when it is
// resumed.
func TestReplayDSL(t *testing.T) {
	a := newPlayback(t)
	a.keep(a.event(schemas.Poisoned, 1), a.event(schemas.Poisoned, 2), a.event(schemas.Poisoned, 3), a.event(schemas.Published, 4))
	file := filepath.Join(t.TempDir(), "query.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"query": {"terms": {"messaging.message.id": ["m-1", "m-3", "m-4"]}}, "size": 1}`)
	replay := []string{"replay", "action: poisoned", "--dsl", file, "--to-failed-queue", "--yes"}
	servertest.WantRun(t, a.Run(t, append(replay, "--canary", "1", "--outcome-wait", "1ms")...), exitFailed, "2 messages to send")
	id := onlyJob(t, a.Installation).ID
	servertest.WantRun(t, a.Run(t, "jobs", "show", id), 0, `{"terms":{"messaging.message.id":["m-1","m-3","m-4"]}}`)
	a.WithRoles(t, "index") // a resume waits until the first step is recorded
	a.Eventually(t, "action: replayed", 1)
	servertest.WantRun(t, a.Run(t, "jobs", "resume", id, "--yes"), 0, "state        paused", "to           the queue that failed", `"m-1","m-3","m-4"`, "sent 2 of 2")
	if got := a.Broker.Len(t, a.Queue); got != 2 {
		t.Errorf("%d messages arrived, want 2", got)
	}
	write(`{"range": {"@timestamp": {"gte": "now-1h"}}}`)
	servertest.WantRun(t, a.Run(t, replay...), exitUsage, "--dsl", "write the time itself")
	servertest.WantRun(t, a.Run(t, "replay", "--dsl", "-", "--ids", "-", "--yes"), exitUsage, "cannot both be standard input")
}

// TestReplayIDsThroughAPipe sends what a search has listed.
func TestReplayIDsThroughAPipe(t *testing.T) { played(t, testReplayIDsThroughAPipe) }

func testReplayIDsThroughAPipe(t *testing.T, a *playback) {
	a.keep(a.event(schemas.Poisoned, 1), a.event(schemas.Poisoned, 2), a.event(schemas.Poisoned, 3))
	const pipe = `"$0" search 'action: poisoned and not message.id: m-2' --fields message.id -o csv | tail -n +2 | "$0" replay --ids - --to-failed-queue --yes`
	cmd := exec.Command("sh", "-c", pipe, a.Binary)
	cmd.Env = append(os.Environ(), "WATERSHIP_CONFIG="+a.Config)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "sent 2 of 2") {
		t.Fatalf("%v:\n%s", err, out)
	}
	var ids []string
	for _, d := range a.Broker.Take(t, a.Queue, 2) {
		ids = append(ids, d.MessageId)
	}
	if got := strings.Join(ids, " "); got != "m-1 m-3" {
		t.Errorf("%s arrived", got)
	}
}
