package cli

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// TestCanaryInATerminal sends two of four failures, waits until the service has
// handled them, and asks. A yes sends the rest, a no leaves them to a resume.
func TestCanaryInATerminal(t *testing.T) {
	t.Parallel()                    // most of it is waiting
	const failures, canaries = 4, 2 // one more, and the route would pause
	for answer, goesOn := range map[string]bool{"y": true, "n": false} {
		t.Run(answer, func(t *testing.T) {
			service := newService(t, func(post, int) int { return http.StatusInternalServerError })
			i := install(t, rabbittest.Newest(t), service.url)
			i.configure(t, "\nretry: {", "\nretry: {breaker: {messages: 0}, ") // or the route would pause, and none be given up
			i.serve(t)
			for n := range failures {
				i.must(t, "publish", "--exchange", i.exchange, "--message-id", fmt.Sprint("m-", n), writeFile(t, "order.json", "{}"))
			}
			i.eventually(t, "action: poisoned", failures)
			service.mend()

			s := i.terminal(t, nil, "replay", "action: poisoned", "--to-failed-queue", "--canary", fmt.Sprint(canaries))
			s.expect("Send 4 messages? [y/N]")
			s.press("y\n")
			s.expect("of the first 2 messages: 2 handled, 0 failed, 0 not reported")
			s.expect("Send the other 2? [y/N]")
			if got := len(service.got()); got != canaries {
				t.Errorf("the service got %d messages before the answer, want %d", got, canaries)
			}
			job := i.onlyJob(t)
			if job.State != replayer.Paused || job.Sent != canaries {
				t.Errorf("while it asks, the job is %s and has sent %d", job.State, job.Sent)
			}
			s.press(answer + "\n")
			if goesOn {
				wantWords(t, s.end(exitOK), "sent 4 of 4, job "+job.ID)
			} else {
				wantWords(t, s.end(exitFailed), "stopped after the first 2 messages", "sent 2 of 4", "go on with: watership jobs resume "+job.ID)
				wantRun(t, i.run(t, "jobs", "show", job.ID), 0, "paused", "sent         2")
				s := i.terminal(t, nil, "jobs", "resume", job.ID)
				s.expect("Send the other 2? [y/N]")
				s.press("n\n")
				wantWords(t, s.end(exitFailed), "the queue that failed", "nothing was sent")
				wantRun(t, i.run(t, "jobs", "resume", job.ID, "--yes"), 0, "sent 4 of 4, job "+job.ID)
			}
			i.eventually(t, "action: handled", failures)
			for id, posts := range service.got() {
				if len(posts) != 1 {
					t.Errorf("the service got %s %d times", id, len(posts))
				}
			}
		})
	}
}

// The outcome of a single failure is waited for, as that of canaries.
func TestRetryOfOneFailure(t *testing.T) {
	t.Parallel() // most of it is waiting
	service := newService(t, func(post, int) int { return http.StatusInternalServerError })
	i := install(t, rabbittest.Embedded(t), service.url)
	i.serve(t)
	i.must(t, "publish", "--exchange", i.exchange, "--message-id", "m-1", writeFile(t, "order.json", "{}"))
	i.eventually(t, "action: poisoned", 1)
	wantRun(t, i.run(t, "failed", "retry", "--yes"), exitFailed, "sent 1 of 1", "of 1 message: 0 handled, 1 failed, 0 not reported", "1 message failed again")
	service.mend()
	wantRun(t, i.run(t, "failed", "retry", "--yes"), exitOK, "sent 1 of 1", "of 1 message: 1 handled, 0 failed, 0 not reported")
}

// Ctrl-C at a question ends the command, and nothing was sent.
func TestInterruptAtAQuestion(t *testing.T) { played(t, testInterruptAtAQuestion) }

func testInterruptAtAQuestion(t *testing.T, a *playback) {
	a.keep(a.event(schemas.Poisoned, 1))
	for question, args := range map[string][]string{
		"Send 1 message? [y/N]": {"replay", "action: poisoned"}, "Discard 1 failure? [y/N]": {"failed", "discard", "action: poisoned", "--reason", "x"},
	} {
		s := a.terminal(t, nil, args...)
		s.expect(question)
		s.press("\x03")
		wantWords(t, s.end(exitInterrupted), "watership: interrupted")
	}
	wantRun(t, a.run(t, "jobs", "list"), 0, "nothing was replayed yet")
}
