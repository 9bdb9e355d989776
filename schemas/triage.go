package schemas

import (
	"github.com/watershipmq/watership/schemas/internal/jsonappend"
	"github.com/watershipmq/watership/schemas/jsonscan"
)

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
