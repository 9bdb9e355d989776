package edit_test

import (
	"fmt"

	"github.com/watershipmq/watership/replayer/edit"
	"github.com/watershipmq/watership/schemas"
)

func ExampleHeaderTypes() {
	fmt.Println(edit.HeaderTypes())
	// Output: [string int float bool time]
}

func ExampleChanges_Check() {
	fmt.Println(edit.Changes{Set: []string{"attempts:int=3"}, Remove: []string{"tenant"}}.Check())
	fmt.Println(edit.Changes{Set: []string{"attempts:int=three"}}.Check())
	// Output:
	// <nil>
	// header attempts:int: "three" is no int
}

// A header that is no string needs its type.
func ExampleParseHeader() {
	name, value, err := edit.ParseHeader("attempts:int=3")
	fmt.Printf("%s %T %v %v\n", name, value, value, err)
	// Output: attempts int64 3 <nil>
}

func ExampleProperties() {
	fmt.Println(edit.Properties())
	// Output: [app_id content_encoding content_type correlation_id expiration priority reply_to timestamp type]
}

func ExampleChanges_Apply() {
	message := edit.Changes{Set: []string{"attempts:int=3"}, RemoveProperties: []string{"reply_to"}}.Apply(
		schemas.Envelope{Properties: schemas.Properties{ReplyTo: "answers"}},
	)
	fmt.Println(message.Headers, message.Properties.ReplyTo == "")
	// Output: map[attempts:3] true
}
