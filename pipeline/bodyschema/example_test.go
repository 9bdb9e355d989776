package bodyschema_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/watershipmq/watership/pipeline/bodyschema"
	"github.com/watershipmq/watership/retry"
)

func ExampleLoad() {
	_, err := bodyschema.Load("missing.json")
	fmt.Println(err)
	// Output: schema missing.json: no such file or directory
}

func ExampleSchema() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "order.json")
	if err := os.WriteFile(file, []byte(`{"required": ["id"], "properties": {"total": {"minimum": 0}}}`), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	schema, err := bodyschema.Load(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(schema.Check([]byte(`{"id": 1, "total": 12}`)))
	err = schema.Check([]byte(`{"total": -1}`))
	fmt.Println(err)
	fmt.Println(retry.ClassOf(err), retry.IsPermanent(err))
	var faults *bodyschema.Error
	if errors.As(err, &faults) {
		fmt.Println(faults.Faults[1].Path, faults.Faults[1].Rule)
	}
	// Output:
	// <nil>
	// the body does not fit the schema order.json: the body: expected member "id" (#/required); /total: expected at least 0 (#/properties/total/minimum)
	// schema true
	// /total #/properties/total/minimum
}

func ExampleError_List() {
	err := &bodyschema.Error{Schema: "order.json", More: 2, Faults: []bodyschema.Fault{{Path: "/total", Rule: "#/properties/total/minimum", Text: "expected at least 0"}}}
	fmt.Println(err.List())
	// Output: /total: expected at least 0 (#/properties/total/minimum); and 2 more
}
