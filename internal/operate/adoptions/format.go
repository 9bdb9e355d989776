package adoptions

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// Format is the form in which a system records a failure with its message.
type Format struct {
	Name string // for the command line
	From string // the system, and its part that fills the queue

	// read returns the failure of a message. Its queue is "" if neither the message nor the
	// name of the error queue says it, its error if the exception has no message.
	read func(arrived schemas.Envelope, errorQueue string) (Failure, error)
}

// Formats returns all formats, by their names.
func Formats() []Format {
	return []Format{
		{"celery", "Celery: tasks that were rejected, as with acks_late and acks_on_failure_or_timeout=False", readCelery},
		{"dead-letter", "RabbitMQ: dead letters (header x-death)", readDeadLetter},
		{"kicks", "Kicks and Sneakers: the handler Maxretry", readKicks},
		{"laravel", "Laravel: jobs that laravel-queue-rabbitmq rejected, as with reroute_failed", readLaravel},
		{"masstransit", "MassTransit: queues with the ending _error or _skipped", readMassTransit},
		{"nservicebus", "NServiceBus: the error queue", readNServiceBus},
		{"rebus", "Rebus: the error queue", readRebus},
		{"spring", "Spring AMQP and Spring Cloud Stream: RepublishMessageRecoverer, republishToDlq", readSpring},
		{"symfony", "Symfony Messenger: a failure transport of RabbitMQ", readSymfony},
		{"watermill", "Watermill: the middleware PoisonQueue", readWatermill},
		{"wolverine", "Wolverine: its dead letter queues", readWolverine},
	}
}

// FormatNamed returns a format by its name.
func FormatNamed(name string) (Format, error) {
	formats := Formats()
	if i := slices.IndexFunc(formats, func(f Format) bool { return f.Name == name }); i >= 0 {
		return formats[i], nil
	}
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.Name
	}
	return Format{}, fmt.Errorf("there is no format %q: expected one of %s", name, strings.Join(names, ", "))
}

var errNoQueue = errors.New("it does not say in which queue it failed: name the queue")

// Read returns the failure of a message of an error queue. of is the queue whose consumer
// failed; "" if the messages, or the name of the error queue, say it. An error concerns this
// message alone: it is of another form, or its queue cannot be one.
func (f Format) Read(arrived schemas.Envelope, errorQueue, of string, owned schemas.Topology) (Failure, error) {
	failure, err := f.read(arrived, errorQueue)
	if err != nil {
		return Failure{}, err
	}
	if of != "" {
		if failure.Message.Exchange == "" { // the origin was the queue that the message names
			failure.Message.RoutingKey = of
		}
		failure.Queue = of
	}
	failure.Error = cmp.Or(failure.Error, failure.ErrorType, "no message")
	if failure.Queue == "" {
		return Failure{}, errNoQueue
	}
	if err := rabbit.CheckName(failure.Queue); err != nil {
		return Failure{}, fmt.Errorf("its queue cannot be one: %w", err)
	}
	if most := 255; len(failure.Message.Exchange) > most || len(failure.Message.RoutingKey) > most { // bytes (AMQP 0-9-1 §4.2.5.3)
		return Failure{}, fmt.Errorf("its exchange or routing key has more than %d bytes", most)
	}
	if owned.Owns(failure.Queue) || owned.Owns(failure.Message.Exchange) {
		return Failure{}, fmt.Errorf("it names queue %q and exchange %q, of which one is Watership's own", failure.Queue, failure.Message.Exchange)
	}
	return failure, nil
}

// missing is the error of a message without a header of its format, or with one that cannot be
// read.
func missing(headers map[string]any, system string, names ...string) error {
	for _, name := range names {
		switch value, has := headers[name]; {
		case value == "":
			return fmt.Errorf("its header %s is empty: it is none of %s's failed messages", name, system)
		case has:
			return fmt.Errorf("its header %s has another type: it is none of %s's failed messages", name, system)
		}
	}
	return fmt.Errorf("it has no header %s: it is none of %s's failed messages", strings.Join(names, " or "), system)
}
