package tablejson_test

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas/jsonscan"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// Every type is kept.
func ExampleAppend() {
	text := tablejson.Append(nil, amqp.Table{"attempts": int32(3), "paid": true})
	fmt.Println(string(text))
	table, err := tablejson.Parse(text)
	fmt.Printf("%T %v\n", table["attempts"], err)
	// Output:
	// [{"key":"attempts","int32":3},{"key":"paid","bool":true}]
	// int32 <nil>
}

func ExampleParse() {
	_, err := tablejson.Parse([]byte(`[{"key":"n","int32":"three"}]`))
	fmt.Println(err != nil)
	// Output: true
}

// The fields of a table have its keys and values.
func ExampleField() {
	for _, field := range tablejson.Sorted(nil, amqp.Table{"b": true, "a": "x"}, nil) {
		fmt.Println(field.Key, field.Value)
	}
	// Output:
	// a x
	// b true
}

// A caller that needs the fields in order anyway sorts them once.
func ExampleAppendFields() {
	fields := tablejson.Sorted(nil, amqp.Table{"b": nil, "a": "x"}, nil)
	fmt.Println(fields[0].Key, string(tablejson.AppendFields(nil, fields)))
	// Output: a [{"key":"a","string":"x"},{"key":"b","void":true}]
}

// Read reads a table that is a member of an object.
func ExampleRead() {
	r := jsonscan.New([]byte(`{"headers":[{"key":"n","int8":3}]}`))
	r.Object(func(name []byte) { fmt.Println(string(name), tablejson.Read(r)) })
	// Output: headers map[n:3]
}
