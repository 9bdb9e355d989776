package transform_test

import (
	"context"
	"fmt"
	"os/signal"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

func ExampleProgram_Apply() {
	program, err := transform.Parse(`select(.headers.tenant == "acme") | .body.currency //= "EUR" | .routing_key = "order.v2"`)
	if err != nil {
		panic(err)
	}
	message := schemas.Envelope{
		Exchange: "shop", RoutingKey: "order.created", Headers: amqp.Table{"tenant": "acme", "attempt": int8(1)}, Body: []byte(`{"total": 7}`),
	}
	changed, keep, err := program.Apply(context.Background(), message)
	fmt.Printf("%v %v %s %s %T\n", keep, err, changed.RoutingKey, changed.Body, changed.Headers["attempt"])
	// Output: true <nil> order.v2 {"currency":"EUR","total":7} int8
}

func ExampleParse() {
	_, err := transform.Parse(`.body.total as`)
	fmt.Println(err)
	// Output: the program cannot be parsed: line 1: unexpected EOF
}

func ExampleExamples_Add() {
	before := schemas.Envelope{Exchange: "shop", RoutingKey: "order"}
	after := before
	after.RoutingKey = "order.v2"
	var examples transform.Examples
	err := examples.Add("event-1", before, after, nil)
	fmt.Println(len(examples), examples[0].EventID, err)
	// Output: 1 event-1 <nil>
}

func ExampleJSON() {
	input, err := transform.JSON(schemas.Envelope{Exchange: "shop", RoutingKey: "order", Body: []byte("total;7")})
	fmt.Println(string(input), err)
	// Output: {"body_text":"total;7","exchange":"shop","headers":{},"properties":{},"routing_key":"order"} <nil>
}

func ExampleMessage() {
	mail, err := transform.Message([]byte(`{"exchange": "mails", "routing_key": "mail", "body": {"to": "ann"}}`))
	fmt.Println(mail.Exchange, mail.RoutingKey, string(mail.Body), err)
	// Output: mails mail {"to":"ann"} <nil>
}

// An editor has changed a message: its program changes only the members that differ.
func ExampleDifference() {
	before := []byte(`{"body":{"currency":null},"routing_key":"order.placed"}`)
	after := []byte(`{"body":{"currency":"EUR"},"routing_key":"order.placed"}`)
	program, routed, err := transform.Difference(before, after)
	fmt.Println(program, routed, err)
	// Output: . + {"body":{"currency":"EUR"}} false <nil>
}

func ExampleProcesses() {
	programs := transform.NewProcesses() // main begins with ServeProcess
	defer programs.Close()
	program, err := transform.Parse(`null | .[536870911] = 1`)
	if err != nil {
		panic(err)
	}
	for _, result := range programs.Apply(context.Background(), program, schemas.Envelope{RoutingKey: "order"}) {
		fmt.Println(result.Err)
	}
	// Output: the program needs more than 512 MiB of memory for a message: change the program
}

func ExampleServeProcess() {
	// func main() begins with
	transform.ServeProcess(signal.Ignore)
	fmt.Println("this is no process for programs")
	// Output: this is no process for programs
}
