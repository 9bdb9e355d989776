package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operate/routes/queuepolicy"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/subscription"
)

// The words of a face stand with the error that they are about, wherever it is in the text.
func TestWordsOfAWrappedError(t *testing.T) {
	for want, err := range map[string]error{
		`no group of failures has the id "k3f7": watership failed --muted lists them`:                                             &failures.NotFoundError{ID: "k3f7"},
		`there is no job "j-1": watership jobs list lists them`:                                                                   &replayer.NoJobError{ID: "j-1"},
		`job j-1 is run by another process, which holds its queue at the broker: wait, or stop it with watership jobs cancel j-1`: &replayer.BusyError{ID: "j-1"},
		`job j-1 was changed by another process: see watership jobs show j-1`:                                                     &replayer.TakenOverError{ID: "j-1"},
		`the record of 3 messages that job j-1 sent is not in the store (2 events wait in the log): ` +
			`run watership serve, which stores them, then resume the job with watership jobs resume j-1`: &replayer.UnrecordedError{ID: "j-1", Missing: 3, Waiting: 2},
		`there is no subscription mail: watership subscriptions list lists them`: &subscription.NotFoundError{Name: "mail"},
	} {
		err, want = fmt.Errorf("editing: %w; the message is in message.json", err), "editing: "+want+"; the message is in message.json"
		if got := wordsOf(err); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

// An error leads to the page that explains it.
func TestAnErrorNamesThePage(t *testing.T) {
	t.Parallel()
	const causes = "\n  watership doctor names the remedy; watership help troubleshooting has causes\n"
	for _, test := range []struct {
		environ, args string
		want, page    string
	}{
		{"WATERSHIP_AMQP_URL=amqp://127.0.0.1:1/", "routes", "watership: connecting to amqp://127.0.0.1:1/", causes},
		{"WATERSHIP_STORE_URL=http://127.0.0.1:1", "search x", "watership: ", causes},
		{"WATERSHIP_STORE_URL=sqlite:none.db", "search (action:", "watership: found", "\n          ^\n  watership help query describes the language\n"},
	} {
		got := call(t.Context(), strings.NewReader(""), []string{test.environ}, strings.Fields(test.args)...)
		if got.Code == exitOK || !strings.Contains(got.Err, test.want) || !strings.HasSuffix(got.Err, test.page) {
			t.Errorf("%s: %+v", test.args, got)
		}
	}
}

// An error of an operation leads to a page, also as the response of a server, and the page is a topic of help.
func TestAnErrorOfAnOperationNamesThePage(t *testing.T) {
	t.Parallel()
	root := newRoot(terminal.Streams{}, nil)
	for page, causes := range map[string][]error{
		"troubleshooting": {
			&replays.PlanError{Code: replays.Unroutable, Count: 1, Matched: 2}, &replayer.UncheckedError{Err: errors.New("away")},
			&problem.Problem{Code: code.ExpectMismatch}, &problem.Problem{Code: code.RoutesUnchecked},
		},
		"replays":     {&replayer.NoReportsError{}, &replayer.StoppedError{Why: "2 of 10 have failed"}},
		"coming-from": {&queuepolicy.RefusedError{Reason: "queue a is a stream"}},
		"privacy":     {&privacy.RedactedError{EventID: "e"}, &problem.Problem{Code: code.Erased}},
		"people":      {&problem.Problem{Code: code.Forbidden}, &problem.Problem{Code: code.NeedsApproval}},
		"query":       {&problem.Problem{Code: code.InvalidQuery}},
	} {
		if topic, _, err := root.Find([]string{page}); err != nil || topic == root {
			t.Errorf("there is no topic %s: %v", page, err)
		}
		for _, cause := range causes {
			if text := errorText(fmt.Errorf("sending: %w", cause)); strings.Count(text, "watership help "+page+" ") != 1 {
				t.Errorf("%T: %s", cause, text)
			}
		}
	}
}
