package cli

import (
	"fmt"
	"testing"

	"github.com/watershipmq/watership/internal/operate/failures"
)

// The words of a face stand with the error that they are about, wherever it is in the text.
func TestWordsOfAWrappedError(t *testing.T) {
	err := fmt.Errorf("editing: %w; the message is in message.json", &failures.NotFoundError{ID: "k3f7"})
	want := `editing: no group of failures has the id "k3f7": watership failed --muted lists them; the message is in message.json`
	if got := wordsOf(err); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
