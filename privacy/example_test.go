package privacy_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/schemas"
)

// An event is stored without the mail address, and the process with the keys gets the message that was published.
func ExampleRedactor() {
	hashKeys, err := privacy.ParseHashKeys([]byte(strings.Repeat("0a", 32)))
	if err != nil {
		fmt.Println(err)
		return
	}
	originals, err := privacy.ParseKeys([]byte("2026 " + strings.Repeat("0b", 32)))
	if err != nil {
		fmt.Println(err)
		return
	}
	redactor, err := privacy.New(privacy.Config{Rules: []privacy.Rule{{Pattern: "mail"}}, HashKeys: hashKeys, Originals: originals})
	if err != nil {
		fmt.Println(err)
		return
	}
	e := schemas.Envelope{Exchange: "shop", RoutingKey: "order.created", Body: []byte("for ada@example.com")}
	event := schemas.Event{Action: schemas.Published, Sequence: 1, Envelope: e, BodySize: len(e.Body)}
	event.EventID, event.Fingerprint, event.Time = "1", e.Fingerprint(), time.Unix(0, 0)
	document := schemas.DocumentFormat{Redact: redactor.Event}.Document(event) // which an indexer stores

	stored, err := schemas.ParseDocument(document.Source)
	fmt.Printf("%s, %v\n", stored.Envelope.Body, err)
	err = redactor.Open(context.Background(), &stored)
	fmt.Printf("%s, %v\n", stored.Envelope.Body, err)
	fmt.Println(redactor.Hashes("ADA@example.com"))
	// Output:
	// for mail_f6af2cfff545ec6c0240, <nil>
	// for ada@example.com, <nil>
	// [mail_f6af2cfff545ec6c0240]
}

func ExampleNew() {
	_, err := privacy.New(privacy.Config{Rules: []privacy.Rule{{Pattern: "mail"}}})
	fmt.Println(err)
	// Output: rules need a key for their hashes
}

func ExampleRule() {
	fmt.Println(privacy.Rule{Exchange: "shop", JSON: "customer.email", As: "mail"}.Check())
	fmt.Println(privacy.Rule{Exchange: "shop"}.Check())
	// Output:
	// <nil>
	// expected one of header, json, text and pattern
}

func ExampleParseKeys() {
	keys, _ := privacy.ParseKeys([]byte("new " + strings.Repeat("0b", 32) + "\nold " + strings.Repeat("0a", 32)))
	id, _, _ := keys.Newest()
	former, err := keys.Key("old")
	fmt.Println(id, len(former), err)
	// Output: new 32 <nil>
}

func ExampleParseHashKeys() {
	_, err := privacy.ParseHashKeys([]byte("0a"))
	fmt.Println(err)
	// Output: line 1: expected 64 hexadecimal digits, such as of `openssl rand -hex 32`
}

func ExamplePatterns() {
	fmt.Println(privacy.Patterns())
	// Output: [mail card iban token]
}

func ExampleTexts() {
	fmt.Println(len(privacy.Texts()), privacy.Texts()[0])
	// Output: 11 answer
}

func ExampleOpen() {
	e := schemas.Event{State: schemas.State{EventID: "1"}, Envelope: schemas.Envelope{Redacted: true}}
	fmt.Println(privacy.Open(context.Background(), nil, &e))
	// Output: the message of event 1 is redacted, and a redacted message is never sent
}

func ExampleHasHash() {
	fmt.Println(privacy.HasHash("order.mail_f6af2cfff545ec6c0240"), privacy.HasHash("order.created"))
	// Output: true false
}

func ExampleIsSubject() {
	fmt.Println(privacy.IsSubject("subject_3f9a2c71d0b4e8aa0c1d"))
	fmt.Println(privacy.IsSubject("C-4711"))
	// Output:
	// true
	// false
}
