package transform

import (
	"testing"

	"github.com/watershipmq/watership/schemas"
)

// A process that the system kills says nothing about the program, which another process runs.
func TestAProcessThatIsKilled(t *testing.T) {
	p := NewProcesses()
	t.Cleanup(p.Close)
	program, err := Parse(`.routing_key += "x"`)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		results := p.Apply(t.Context(), program, schemas.Envelope{RoutingKey: "a"})
		if len(results) != 1 || results[0].Err != nil || results[0].Message.RoutingKey != "ax" {
			t.Fatalf("%+v", results)
		}
		if err := p.idle[0].cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
}
