package adoptions

import (
	"fmt"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// readDeadLetter reads RabbitMQ's record of a dead letter
// (https://www.rabbitmq.com/docs/dlx#effects). The origin is the one of its oldest death.
func readDeadLetter(arrived schemas.Envelope, _ string) (Failure, error) {
	before, newest, dead := wire.DeadLetter(arrived, func(_, _ header.Death) bool { return true })
	if !dead {
		return Failure{}, missing(arrived.Headers, "RabbitMQ", "x-death")
	}
	f := Failure{
		Message: withoutHeaders(before, func(string) bool { return false }),
		Queue:   newest.Queue, Error: fmt.Sprintf("dead-lettered from queue %q: %s", newest.Queue, newest.Reason),
		ErrorType: newest.Reason, FailedAt: newest.Time,
	}
	if newest.Count > 0 && newest.Count < maxAttempts {
		f.Attempts = int(newest.Count)
	}
	return f, nil
}

// maxAttempts limits numbers of attempts, which other programs wrote.
const maxAttempts = 1_000_000
