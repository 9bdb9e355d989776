package subscription_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

func ExampleReader_Items() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	store, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(folder, "events.db")})
	if err == nil {
		err = store.Install(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	reader := subscription.Reader{Store: store, Source: "shop"}
	for item, err := range reader.Items(ctx, eventstore.Cursor{}) {
		if err != nil {
			log.Fatal(err)
		}
		if item.CaughtUp { // a program would go on and get each new event
			fmt.Println("read up to", subscription.FormatPosition(item.Position))
			break
		}
		fmt.Println(item.Event.RecordedAction())
	}
	// Output: read up to 1
}

func ExampleFormatPosition() {
	fmt.Println(subscription.FormatPosition(eventstore.Cursor{Sequence: 1764000000000000, EventID: "shop:v1:ab"}))
	// Output: 1764000000000000:shop:v1:ab
}

func ExampleParsePosition() {
	position, err := subscription.ParsePosition("1764000000000000")
	fmt.Println(position.Sequence, err)
	// Output: 1764000000000000 <nil>
}

func ExampleCause_Text() {
	fmt.Println(subscription.QueueMissing.Text(""))
	fmt.Println(subscription.AttemptsExhausted.Text("out of stock"))
	fmt.Println(subscription.TargetError.Text("no such order"))
	// Output:
	// the queue does not exist
	// the policy allows no further attempt: out of stock
	// no such order
}

// A program is tried on a recorded message, as a subscription applies it.
func ExampleTarget_Upcast() {
	program, err := transform.Parse(`if .headers.version == 1 then .headers.version = 2 else . end`)
	if err != nil {
		log.Fatal(err)
	}
	var programs *transform.Processes // nil: the program runs in this process
	recorded := schemas.Envelope{Headers: amqp.Table{"version": int64(1)}}
	result := programs.Apply(context.Background(), program, recorded)[0]
	upcast, err := subscription.Target{Kind: subscription.ToHandler}.Upcast(recorded, result)
	fmt.Println(upcast.Headers["version"], err)
	// Output: 2 <nil>
}
