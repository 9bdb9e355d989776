package cli

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
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
			service := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusInternalServerError })
			i := servertest.Install(t, rabbittest.Newest(t), service.URL)
			i.Configure(t, "\nretry: {", "\nretry: {breaker: {messages: 0}, ") // or the route would pause, and none be given up
			i.Serve(t)
			for n := range failures {
				i.Must(t, "publish", "--exchange", i.Exchange, "--message-id", fmt.Sprint("m-", n), servertest.WriteFile(t, "order.json", "{}"))
			}
			i.Eventually(t, "action: poisoned", failures)
			service.Mend()

			s := onTerminal(t, i, nil, "replay", "action: poisoned", "--to-failed-queue", "--canary", fmt.Sprint(canaries))
			s.expect("Send 4 messages? [y/N]")
			s.press("y\n")
			s.expect("of the first 2 messages: 2 handled, 0 failed, 0 not reported")
			s.expect("Send the other 2? [y/N]")
			if got := len(service.Got()); got != canaries {
				t.Errorf("the service got %d messages before the answer, want %d", got, canaries)
			}
			job := onlyJob(t, i)
			if job.State != replayer.Paused || job.Sent != canaries {
				t.Errorf("while it asks, the job is %s and has sent %d", job.State, job.Sent)
			}
			s.press(answer + "\n")
			if goesOn {
				servertest.WantWords(t, s.end(exitOK), "sent 4 of 4, job "+job.ID)
			} else {
				servertest.WantWords(t, s.end(exitFailed), "stopped after the first 2 messages", "sent 2 of 4", "go on with: watership jobs resume "+job.ID)
				servertest.WantRun(t, i.Run(t, "jobs", "show", job.ID), 0, "paused", "sent         2")
				s := onTerminal(t, i, nil, "jobs", "resume", job.ID)
				s.expect("Send the other 2? [y/N]")
				s.press("n\n")
				servertest.WantWords(t, s.end(exitFailed), "the queue that failed", "nothing was sent")
				servertest.WantRun(t, i.Run(t, "jobs", "resume", job.ID, "--yes"), 0, "sent 4 of 4, job "+job.ID)
			}
			i.Eventually(t, "action: handled", failures)
			for id, posts := range service.Got() {
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
	service := servertest.NewService(t, func(servertest.Post, int) int { return http.StatusInternalServerError })
	i := servertest.Install(t, rabbittest.Embedded(t), service.URL)
	i.Serve(t)
	i.Must(t, "publish", "--exchange", i.Exchange, "--message-id", "m-1", servertest.WriteFile(t, "order.json", "{}"))
	i.Eventually(t, "action: poisoned", 1)
	servertest.WantRun(t, i.Run(t, "failed", "retry", "--yes"), exitFailed, "sent 1 of 1", "of 1 message: 0 handled, 1 failed, 0 not reported", "1 message failed again")
	i.Eventually(t, "action: poisoned", 2) // the outcome is that of the first attempt
	service.Mend()
	servertest.WantRun(t, i.Run(t, "failed", "retry", "--yes"), exitOK, "sent 1 of 1", "of 1 message: 1 handled, 0 failed, 0 not reported")
}

// Ctrl-C at a question ends the command, and nothing was sent.
func TestInterruptAtAQuestion(t *testing.T) { played(t, testInterruptAtAQuestion) }

func testInterruptAtAQuestion(t *testing.T, a *playback) {
	a.keep(a.event(schemas.Poisoned, 1))
	for question, args := range map[string][]string{
		"Send 1 message? [y/N]": {"replay", "action: poisoned"}, "Discard 1 failure? [y/N]": {"failed", "discard", "action: poisoned", "--reason", "x"},
	} {
		s := onTerminal(t, a.Installation, nil, args...)
		s.expect(question)
		s.press("\x03")
		servertest.WantWords(t, s.end(exitInterrupted), "watership: interrupted")
	}
	servertest.WantRun(t, a.Run(t, "jobs", "list"), 0, "nothing was replayed yet")
}
