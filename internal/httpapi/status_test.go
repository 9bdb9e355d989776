package httpapi_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/schemas"
)

func TestHistogramByAction(t *testing.T) { inEachStore(t, testHistogramByAction) }

func testHistogramByAction(t *testing.T, r rig) {
	r.keep(t,
		r.event(1, schemas.Published), r.event(2, schemas.Published), r.event(61, schemas.Handled, at("orders")),
		r.event(62, schemas.Poisoned, failed("orders", "timeout")), r.event(200, schemas.Published), // after the period
	)
	for _, test := range []struct {
		name   string
		query  []string
		begin  string // of the first step
		values string
		series map[string]string
		step   float64
	}{
		{
			"a period",
			[]string{"from", "2026-05-04T03:00:00Z", "to", "2026-05-04T03:03:00Z", "steps", "5"},
			"2026-05-04T03:00:00.000Z", "[2 2 0]",
			map[string]string{"published": "[2,0,0]", "handled": "[0,1,0]", "poisoned": "[0,1,0]", "retry_scheduled": "[0,0,0]"},
			60,
		},
		{
			"without a begin",
			[]string{"to", "2026-05-04T03:02:00Z", "steps", "5"},
			"2026-05-04T03:00:00.000Z", "[2 2]",
			map[string]string{"published": "[2,0]", "handled": "[0,1]"},
			60,
		},
		{
			"of a query",
			[]string{"query", "queue: orders", "from", "2026-05-04T03:00:00Z", "to", "2026-05-04T03:03:00Z", "steps", "5"},
			"2026-05-04T03:00:00.000Z", "[0 2 0]",
			map[string]string{"published": "[0,0,0]", "handled": "[0,1,0]"},
			60,
		},
		{
			"of days in Berlin",
			[]string{"from", "2026-05-01", "to", "2026-05-08", "steps", "9", "zone", "Europe/Berlin"},
			"2026-04-30T22:00:00.000Z", "[0 0 0 5 0 0 0]",
			map[string]string{"published": "[0,0,0,3,0,0,0]"},
			86400,
		},
		{"of nothing at all", []string{"query", "queue: nobody", "to", "2026-05-04T03:02:00Z"}, "", "[]", map[string]string{"published": "[]"}, 0},
	} {
		got := r.get(t, "/events/histogram"+query(append(test.query, "by", "action")...))
		counts, begin := "", ""
		for i, v := range got["values"].([]any) {
			if i == 0 {
				begin, _ = member(v, "value").(string)
			} else {
				counts += " "
			}
			n, _ := json.Marshal(member(v, "count"))
			counts += string(n)
		}
		step, _ := got["step_seconds"].(float64)
		if counts = "[" + counts + "]"; counts != test.values || begin != test.begin || step != test.step {
			t.Errorf("%s: %s from %s in steps of %v, want %s from %s in %v", test.name, counts, begin, step, test.values, test.begin, test.step)
		}
		for _, s := range got["series"].([]any) {
			action, _ := member(s, "value").(string)
			counts, _ := json.Marshal(member(s, "counts"))
			if want, told := test.series[action]; told && string(counts) != want {
				t.Errorf("%s: %s of %s, want %s", test.name, counts, action, want)
			}
		}
	}
	limited := r.as(t, access.Token{Name: "bob", Role: access.Viewer, Queues: []string{"payments"}})
	got, _ := json.Marshal(limited.get(t, "/events/histogram?by=action")["values"])
	if string(got) != "[]" {
		t.Errorf("a caller with limits counts %s", got)
	}
	r.do(t, http.MethodGet, "/events/histogram?by=queue", "").wantProblem(t, http.StatusUnprocessableEntity, "validation failed")
	r.do(t, http.MethodGet, "/events/histogram?by=action&from=yesterday", "").wantProblem(t, http.StatusBadRequest, "yesterday")
	r.do(t, http.MethodGet, "/status", "").wantProblem(t, http.StatusInternalServerError, "does not serve")
}

func TestStatusAndRoutes(t *testing.T) { onEvery(t, testStatusAndRoutes) }

func testStatusAndRoutes(t *testing.T, s served) {
	s.fail(t, "m-1")
	s.post(t, "/messages", `{"exchange":"shop","routing_key":"order.created","text":"1"}`)
	eventually(t, "a message is handled", func() bool { return s.get(t, "/events/count"+query("query", "action: handled"))["count"] == 1.0 })
	status := s.get(t, "/status")
	started, err := time.Parse(time.RFC3339, status["started"].(string))
	if status["ready"] != true || status["problem"] != nil || err != nil || time.Since(started) > time.Hour || len(status["roles"].([]any)) != len(role.All()) {
		t.Errorf("%v", status)
	}
	eventually(t, "the queue of copies has a watermark", func() bool {
		s.post(t, "/messages", `{"exchange":"shop","routing_key":"other","text":"1"}`)
		age, is := member(s.get(t, "/status"), "watermark", "age_seconds").(float64) // none between two sessions
		return is && age < 60
	})
	for _, queue := range status["index"].([]any) {
		if lag, is := member(queue, "lag_seconds").(float64); !is || lag < 0 || lag > 60 {
			t.Errorf("%v", queue)
		}
	}
	if queues, _ := json.Marshal(s.get(t, "/failures/groups")["queues"]); string(queues) != `{"orders":1}` {
		t.Errorf("failures by queue: %s", queues)
	}
	var route any
	eventually(t, "the management API knows the consumer, and that it has acknowledged", func() bool { // its counts are some seconds old
		route = s.get(t, "/routes?recent=true")["routes"].([]any)[0]
		return member(route, "processes") != nil && member(route, "state") == "running" && member(route, "in_flight") == 0.0
	})
	if member(route, "recent", "handled") != 1.0 {
		t.Errorf("%v", route)
	}
	schedule, _ := json.Marshal(member(route, "retry"))
	if string(schedule) != `[{"attempts":1,"delays_seconds":[],"total_seconds":0}]` {
		t.Errorf("%s", schedule)
	}
	if first := s.get(t, "/routes")["routes"].([]any)[0]; member(first, "recent") != nil {
		t.Errorf("nobody has asked for %v", first)
	}
}

// Checks take a while, so somebody who looks often gets earlier results.
func TestFindingsAreReused(t *testing.T) { inEachStore(t, testFindingsAreReused) }

func testFindingsAreReused(t *testing.T, r rig) {
	first := r.get(t, "/doctor")["checked"]
	if again := r.get(t, "/doctor?max_age_seconds=3600")["checked"]; again != first {
		t.Errorf("checked at %v and at %v", first, again)
	}
	if again := r.get(t, "/doctor?max_age_seconds=0.000001")["checked"]; again == first {
		t.Error("old findings were returned")
	}
	if again := r.get(t, "/doctor")["checked"]; again == first {
		t.Error("nobody has asked for earlier findings")
	}
}

func TestPauseRoutes(t *testing.T) { onEvery(t, testPauseRoutes) }

func testPauseRoutes(t *testing.T, s served) {
	route := func() any { return s.get(t, "/routes")["routes"].([]any)[0] }
	viewer := s.as(t, access.Token{Name: "eve", Role: access.Viewer})
	limited := s.as(t, access.Token{Name: "bob", Role: access.Operator, Queues: []string{"payments"}})
	const why = `{"reason":"the database moves"}`
	viewer.do(t, http.MethodPost, "/routes/orders/pause", why).wantProblem(t, http.StatusForbidden, "operator")
	limited.do(t, http.MethodPost, "/routes/orders/pause", why).wantProblem(t, http.StatusForbidden, "bob may not use the queue orders")
	s.do(t, http.MethodPost, "/routes/nothing/pause", why).wantProblem(t, http.StatusBadRequest, "no route has the queue nothing")
	s.do(t, http.MethodPost, "/routes/orders/pause", `{"reason":" "}`).wantProblem(t, http.StatusUnprocessableEntity, "validation failed")
	eventually(t, "the route runs", func() bool { return member(route(), "state") == "running" })
	if got := s.post(t, "/routes/orders/pause", why); got["paused"] != true {
		t.Errorf("%v", got)
	}
	if got := route(); member(got, "state") != "paused" || member(got, "paused_by_hand") != true {
		t.Errorf("%v", got)
	}
	eventually(t, "its reason is stored", func() bool {
		got := route()
		return member(got, "error") == "the database moves (ada)" && member(got, "since") != nil
	})
	eventually(t, "nobody consumes", func() bool { return member(route(), "consumers") == 0.0 })
	s.post(t, "/messages", `{"exchange":"shop","routing_key":"order.created","text":"1"}`)
	eventually(t, "the message waits", func() bool { return member(route(), "messages") == 1.0 })
	limited.do(t, http.MethodPost, "/routes/orders/resume", "{}").wantProblem(t, http.StatusForbidden, "orders")
	for range 2 {
		s.post(t, "/routes/orders/resume", "{}")
	}
	eventually(t, "the message is handled", func() bool { return s.handled.Load() == 1 })
	eventually(t, "the route runs again", func() bool { return member(route(), "state") == "running" })
	if got := route(); member(got, "paused_by_hand") != nil || member(got, "error") != nil {
		t.Errorf("%v", got)
	}
	var resumed any
	eventually(t, "its event is stored", func() bool {
		resumed = s.get(t, "/events/count"+query("query", "action: resumed and error.type: operator"))["count"]
		return resumed != 0.0
	})
	if resumed != 1.0 {
		t.Errorf("%v events of two requests, one of which changed nothing", resumed)
	}
	viewer.do(t, http.MethodPost, "/routes/pause", why).wantProblem(t, http.StatusForbidden, "operator")
	limited.do(t, http.MethodPost, "/routes/pause", why).wantProblem(t, http.StatusForbidden, "bob may not use all queues")
	if got := s.post(t, "/routes/pause", why); got["paused"] != true {
		t.Errorf("%v", got)
	}
	if got := route(); member(got, "state") != "paused" || member(got, "paused_with_all") != true || member(got, "paused_by_hand") != nil {
		t.Errorf("%v", got)
	}
	s.do(t, http.MethodPost, "/routes/orders/resume", "{}").wantProblem(t, http.StatusBadRequest, "resume all")
	limited.do(t, http.MethodPost, "/routes/resume", "{}").wantProblem(t, http.StatusForbidden, "bob may not use all queues")
	s.post(t, "/routes/resume", "{}")
	if got := route(); member(got, "paused_with_all") != nil {
		t.Errorf("%v", got)
	}
}
