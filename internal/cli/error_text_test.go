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
