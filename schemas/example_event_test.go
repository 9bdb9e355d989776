package schemas_test

import (
	"bytes"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// Documents can be searched by the headers on the list.
func ExampleDocumentFormat() {
	format := schemas.DocumentFormat{Labels: []string{"tenant"}}
	source := format.Append(nil, schemas.Event{
		Action: schemas.Published, Envelope: schemas.Envelope{Headers: amqp.Table{"tenant": "acme"}},
	})
	fmt.Println(bytes.Contains(source, []byte(`"labels":{"tenant":"acme"}`)))
	// Output: true
}

// An event whose document the store refused is not lost.
func ExampleEvent_Quarantine() {
	event := schemas.Event{Action: schemas.Handled}
	event.EventID = "1"
	instead := event.Quarantine("the document has too many fields")
	fmt.Println(instead.Action, instead.QuarantinedAction, instead.EventID)
	refused, _ := instead.Refused()
	fmt.Println(refused.Action)
	// Output:
	// quarantined handled 1
	// handled
}

func ExampleAction() {
	for _, action := range []schemas.Action{schemas.Handled, schemas.Poisoned} {
		fmt.Println(action, action.Outcome(), action.Stream())
	}
	// Output:
	// handled success traffic
	// poisoned failure failures
}

// Failures of one kind have one text.
func ExampleFailure_ErrorGroup() {
	fmt.Println(schemas.Failure{Message: "order 4711 of customer c-17 has no lines"}.ErrorGroup())
	// Output: order # of customer # has no lines
}

// Published events may be kept for periods of their own, which the names of their streams have.
func ExampleStream() {
	orders := schemas.Traffic.For(48 * time.Hour)
	period, _ := orders.Period()
	fmt.Println(orders, orders.Base(), period)
	// Output: traffic@2d traffic 48h0m0s
}
