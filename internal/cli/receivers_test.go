package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/operate/deliveries"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

// What a receiver has missed is sent to it, all of it and nothing else.
func TestRecoverWhatAReceiverHasMissed(t *testing.T) { playedOnce(t, testRecover) }

func testRecover(t *testing.T, a *playback) {
	const missed = 40
	var events []schemas.Event
	n := 0
	add := func(action schemas.Action, change func(e *schemas.Event)) schemas.Event {
		e := a.event(action, n)
		e.Receiver, e.Duration, e.Message = "shop.example", time.Millisecond, fmt.Sprint("i-", n)
		change(&e)
		events = append(events, e)
		return e
	}
	nothing, earlier := func(*schemas.Event) {}, func(e *schemas.Event) { e.Time = e.Time.Add(-time.Minute) }
	for n = 1; n <= missed; n++ {
		add(schemas.Poisoned, nothing)
	}
	for _, others := range []func(){
		func() { add(schemas.Poisoned, func(e *schemas.Event) { e.Time = e.Time.Add(-2 * time.Hour) }) },
		func() { add(schemas.Poisoned, func(e *schemas.Event) { e.Receiver = "shop.example.com" }) },
		func() { add(schemas.Poisoned, earlier); add(schemas.Handled, earlier) },
		func() {
			of := add(schemas.Poisoned, nothing)
			add(schemas.Discarded, func(e *schemas.Event) { e.ReplayOf = of.EventID })
		},
		func() { add(schemas.RetryScheduled, nothing) },
	} {
		for range 10 {
			others()
			n++
		}
	}
	a.keep(events...)
	var shown []deliveries.ReceiverState
	if err := json.Unmarshal([]byte(a.Must(t, "receivers", "show", a.Queue, "shop.example", "-o", "json")), &shown); err != nil || len(shown) != 1 {
		t.Fatalf("%+v, %v", shown, err)
	}
	if r := shown[0]; r.Missed != missed+10 || r.Waiting != 10 || r.BrokenSince == nil || r.LastAnswer != "no stock" || r.Succeeded != 10 {
		t.Errorf("%+v", r)
	}
	servertest.WantWords(t, a.Must(t, "receivers"), "shop.example.com", "no stock", fmt.Sprint(missed+10))
	recovered := a.Must(t, "receivers", "recover", "shop.example", "--since", "1h", "--expect", fmt.Sprint(missed), "--yes")
	servertest.WantWords(t, recovered, fmt.Sprintf("sent %d of %[1]d", missed))
	deliveries, err := a.channel.Consume(a.Queue, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for range missed {
		d := <-deliveries
		var number int
		if _, err := fmt.Sscanf(d.MessageId, "m-%d", &number); err != nil || number > missed || got[d.MessageId] {
			t.Fatalf("message %q, %v", d.MessageId, err)
		}
		got[d.MessageId] = true
	}
	select {
	case d := <-deliveries:
		t.Errorf("message %q is one too many", d.MessageId)
	default:
	}
	again := a.Run(t, "receivers", "recover", "shop.example", "--since", "1h", "--yes")
	if !strings.Contains(again.Out, "0 messages to send") {
		t.Errorf("a second recovery: %+v", again)
	}
}
