package adoptions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// Names of Symfony Messenger (https://symfony.com/doc/current/messenger.html#messenger-failure-transport).
// Its Serializer writes stamps as headers with this prefix, and its PhpSerializer as fields of
// the body.
const (
	symfonyHeader     = "X-Message-Stamp-"
	symfonyStamps     = `Symfony\Component\Messenger\Stamp\`
	symfonySent       = symfonyStamps + "SentToFailureTransportStamp"
	symfonyDetails    = symfonyStamps + "ErrorDetailsStamp"
	symfonyRedelivery = symfonyStamps + "RedeliveryStamp"
	symfonyDelay      = symfonyStamps + "DelayStamp"
)

// isOfSymfonysFailure is true for the stamps of a failure. Symfony gives a message up that fails
// again with the stamp of the failure transport.
func isOfSymfonysFailure(stamp string) bool {
	return slices.Contains([]string{symfonySent, symfonyDetails, symfonyRedelivery, symfonyDelay}, stamp)
}

// symfonyError is a stamp with an exception, of which the last counts. Symfony writes it since 5.2.
type symfonyError struct {
	Class     string `json:"exceptionClass"`
	Message   string `json:"exceptionMessage"`
	Exception struct {
		Trace string `json:"trace_as_string"`
	} `json:"flattenException"`
}

// symfonyRetry is a stamp of a retry, the last one of the failure itself.
type symfonyRetry struct {
	Count int    `json:"retryCount"`
	At    string `json:"redeliveredAt"`
}

// readSymfony reads a message of a failure transport of RabbitMQ. Its routing key is the queue in which it failed; the
// stamps have the name of a transport instead.
func readSymfony(arrived schemas.Envelope, errorQueue string) (Failure, error) {
	f := Failure{Message: withoutHeaders(arrived, func(name string) bool {
		return isOfSymfonysFailure(strings.TrimPrefix(name, symfonyHeader))
	})}
	var failures []symfonyError
	var retries []symfonyRetry
	if h := headers(arrived.Headers); h.text(symfonyHeader+symfonySent) != "" {
		// A stamp that cannot be read says nothing about the failure.
		_ = json.Unmarshal([]byte(h.text(symfonyHeader+symfonyDetails)), &failures)
		_ = json.Unmarshal([]byte(h.text(symfonyHeader+symfonyRedelivery)), &retries)
	} else {
		var err error
		if f.Message.Body, failures, retries, err = readPHPEnvelope(arrived.Body); err != nil {
			return Failure{}, fmt.Errorf("it has no header %s, and its body is none of PhpSerializer: it is none of Symfony's failed messages: %w", symfonyHeader+symfonySent, err)
		}
	}
	if n := len(failures); n > 0 {
		last := failures[n-1]
		f.Error, f.ErrorType = last.Message, last.Class
		f.Stack = strings.TrimSuffix(last.Class+": "+last.Message+"\n"+last.Exception.Trace, "\n")
	}
	f.Attempts = 1
	for _, retry := range retries {
		f.Attempts = max(f.Attempts, min(retry.Count, maxAttempts)+1)
		f.FailedAt, _ = time.Parse(time.RFC3339Nano, retry.At)
	}
	queue := arrived.RoutingKey
	if queue == errorQueue {
		queue = "" // a failure transport of a transport without RabbitMQ
	}
	f.to(queue)
	return f, nil
}
