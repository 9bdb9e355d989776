package schemas

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas/internal/jsonappend"
	"github.com/watershipmq/watership/schemas/jsonscan"
)

// writeTriage writes a decision about a group of failures, for a `triaged` event.
func (s State) writeTriage(h typedTable) {
	if s.Triage == (State{}.Triage) {
		return
	}
	t := typedTable{}
	t.setText("group", shorten(s.Triage.Group, longestName))
	t.setText("decision", shorten(s.Triage.Decision, longestName))
	t.setText("assignee", shorten(s.Triage.Assignee, errorBudget))
	t.setTime("until", s.Triage.Until)
	t.setInt("count", int64(s.Triage.Count))
	t.setInt("up-to", s.Triage.UpTo)
	h[headerTriage] = amqp.Table(t)
}

// readTriage reads what writeTriage wrote. Only events that Watership published have it, as
// with readAudit.
func (s *State) readTriage(headers amqp.Table) {
	table, _ := headers[headerTriage].(amqp.Table)
	t := typedTable(table)
	s.Triage.Group, s.Triage.Decision, s.Triage.Assignee = t.text("group"), t.text("decision"), t.text("assignee")
	s.Triage.Until, s.Triage.Count = storable(t.time("until")), int(min(max(0, t.int("count")), mostCounted))
	s.Triage.UpTo = min(max(0, t.int("up-to")), MaxSequence)
}

// appendTriage appends its fields that failures do not have.
func appendTriage(o *jsonappend.Object, e *Event) {
	triage := o.Open("triage")
	o.String("group", e.Triage.Group)
	o.String("decision", e.Triage.Decision)
	o.String("assignee", e.Triage.Assignee)
	o.Time("until", storable(e.Triage.Until))
	o.Positive("count", int64(e.Triage.Count))
	o.Positive("up_to", e.Triage.UpTo)
	o.Close(triage)
}

func readTriageFields(r *jsonscan.Reader, s *State) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "group":
			s.Triage.Group = r.Text()
		case "decision":
			s.Triage.Decision = r.Text()
		case "assignee":
			s.Triage.Assignee = r.Text()
		case "until":
			s.Triage.Until = r.Time()
		case "count":
			s.Triage.Count = int(r.Int(64))
		case "up_to":
			s.Triage.UpTo = r.Int(64)
		}
	})
}
