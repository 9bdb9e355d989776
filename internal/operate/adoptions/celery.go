package adoptions

import (
	"cmp"
	"fmt"

	"github.com/watershipmq/watership/schemas"
)

// readCelery reads a task that its worker rejected
// (https://docs.celeryq.dev/en/stable/internals/protocol.html). Celery keeps the exception in
// its result backend, and not with the message.
func readCelery(arrived schemas.Envelope, errorQueue string) (Failure, error) {
	h := headers(arrived.Headers)
	task := h.text("task")
	if task == "" {
		return Failure{}, missing(h, "Celery", "task")
	}
	f, err := readDeadLetter(arrived, errorQueue)
	if err != nil {
		return Failure{}, err
	}
	f.Error = fmt.Sprintf("task %s: %s", task, cmp.Or(f.ErrorType, "rejected"))
	f.ErrorType = task
	f.Attempts = h.number("retries") + 1
	return f, nil
}
