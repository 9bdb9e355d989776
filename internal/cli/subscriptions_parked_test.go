package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/internal/operation"
)

// parkedMessages is a system whose subscription parks another message after each list, and no longer has
// the message at the position 1 after the first list.
type parkedMessages struct {
	lists   int
	dropped [][]string // of each request
}

func (p *parkedMessages) Do(_ context.Context, _ *operation.Operation, in, out any) error {
	if in, ok := in.(*subscriptions.PositionsInput); ok {
		p.dropped = append(p.dropped, slices.Clone(in.Body.Positions))
		out.(*subscriptions.CountOutput).Body.Changed = len(in.Body.Positions)
		return nil
	}
	first := 2
	if p.lists++; p.lists == 1 {
		first = 1
	}
	for n := first; n <= 2500+p.lists; n++ {
		list := &out.(*subscriptions.ParkedOutput).Body
		list.Parked = append(list.Parked, subscriptions.ParkedMessage{Position: fmt.Sprint(n)})
	}
	return nil
}

// The messages that were shown are dropped, without those that are parked or gone while an operator
// thinks, and in as many requests as they need.
func TestDropParked(t *testing.T) {
	var out bytes.Buffer
	sys := &parkedMessages{}
	a := action{Streams: terminal.Streams{Out: &out, Err: &out}, yes: true}
	if err := a.dropParked(t.Context(), sys, subscriptions.PositionsInput{}); err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, positions := range sys.dropped {
		sizes = append(sizes, len(positions))
	}
	if want := []int{1000, 1000, 500}; !slices.Equal(sizes, want) || sys.dropped[0][0] != "2" || sys.dropped[2][499] != "2501" {
		t.Errorf("requests of %d positions, want %d: %s", sizes, want, out.String())
	}
}
