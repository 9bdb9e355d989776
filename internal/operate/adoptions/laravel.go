package adoptions

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// laravelHeader is a table with the number of attempts before this one, which
// laravel-queue-rabbitmq counts on from (https://github.com/vyuldashev/laravel-queue-rabbitmq).
const laravelHeader = "laravel"

// readLaravel reads a job that its worker rejected after its last attempt, as with the option
// reroute_failed. Laravel keeps the exception in its table of failed jobs, and not with the
// message. A released job is published again, so that its origin is its newest death.
func readLaravel(arrived schemas.Envelope, _ string) (Failure, error) {
	var job struct {
		DisplayName string `json:"displayName"`
		Job         string `json:"job"`
	}
	if json.Unmarshal(arrived.Body, &job) != nil || job.Job == "" {
		return Failure{}, errors.New("its body has no job: it is none of Laravel's failed messages")
	}
	before, newest, dead := wire.DeadLetter(arrived, nil)
	if !dead {
		return Failure{}, missing(arrived.Headers, "Laravel", "x-death")
	}
	f := Failure{
		Message: withoutHeaders(before, func(string) bool { return false }), Queue: newest.Queue, ErrorType: cmp.Or(job.DisplayName, job.Job), FailedAt: newest.Time,
	}
	f.Error = fmt.Sprintf("job %s: %s", f.ErrorType, newest.Reason)
	if counter, counts := arrived.Headers[laravelHeader].(amqp.Table); counts {
		f.Attempts = headers(counter).number("attempts") + 1
		counter = maps.Clone(counter)
		counter["attempts"] = int32(0) // as of a new job
		f.Message.Headers[laravelHeader] = counter
	}
	return f, nil
}
