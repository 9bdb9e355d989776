package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/watershipmq/watership/internal/operate/failures"
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
		`the query of job j-1 finds other events than before, and the record of 3 messages that it sent is not in the store (2 events wait in the log): ` +
			`run watership serve, which stores them, then resume the job with watership jobs resume j-1`: &replayer.UnrecordedError{ID: "j-1", Missing: 3, Waiting: 2},
		`there is no subscription mail: watership subscriptions list lists them`: &subscription.NotFoundError{Name: "mail"},
	} {
		err, want = fmt.Errorf("editing: %w; the message is in message.json", err), "editing: "+want+"; the message is in message.json"
		if got := wordsOf(err); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

// An error of a server leads to the page with its causes.
func TestAnErrorOfTheBrokerNamesThePage(t *testing.T) {
	t.Parallel()
	got := call(t.Context(), strings.NewReader(""), []string{"WATERSHIP_AMQP_URL=amqp://127.0.0.1:1/"}, "routes")
	if got.Code != exitFailed || !strings.Contains(got.Err, "watership: connecting to amqp://127.0.0.1:1/") || !strings.HasSuffix(got.Err, "\n  watership doctor names the remedy; watership help troubleshooting has causes\n") {
		t.Errorf("%+v", got)
	}
}
