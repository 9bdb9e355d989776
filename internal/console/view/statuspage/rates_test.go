package statuspage

import (
	"testing"

	"github.com/watershipmq/watership/internal/operate/messages"
)

func values(pairs map[string]int64) (v messages.Values) {
	for queue, n := range pairs {
		v.Values = append(v.Values, messages.Value{Value: queue, Count: n})
	}
	return v
}

func TestRatesOfQueues(t *testing.T) {
	now := Counts{values(map[string]int64{"mail": 90, "orders": 60}), values(map[string]int64{"mail": 10, "orders": 40})}
	before := Counts{values(map[string]int64{"mail": 50, "stock": 9}), values(map[string]int64{"mail": 50})}
	rates := NewRates(now, &before)
	want := []Rate{
		{"orders", "/failures?q=queue%3A+orders", Handling{60, 40}, Handling{}},
		{"mail", "/failures?q=queue%3A+mail", Handling{90, 10}, Handling{50, 50}},
		{"stock", "/failures?q=queue%3A+stock", Handling{}, Handling{9, 0}},
	}
	if len(rates.Queues) != len(want) || !rates.Before || rates.Others != 0 {
		t.Fatalf("%+v", rates)
	}
	for i, r := range rates.Queues {
		if r.Queue != want[i].Queue || r.Now != want[i].Now || r.Before != want[i].Before {
			t.Errorf("%+v, want %+v", r, want[i])
		}
	}
	if m := rates.Queues[1]; m.Now.Percent() != 10 || m.Worse() != -1 || rates.Queues[0].Worse() != 1 || rates.Queues[2].Worse() != 0 {
		t.Errorf("%+v", rates.Queues)
	}
	if NewRates(now, nil).Before {
		t.Error("there is a period before all time")
	}
}
