package schemas

import (
	"github.com/watershipmq/watership/schemas/internal/jsonappend"
	"github.com/watershipmq/watership/schemas/jsonscan"
)

// outcome returns the value of event.outcome.
func (e *Event) outcome() string {
	switch action := e.searchedAction(); {
	case action != Audited:
		return action.Outcome()
	case e.Audit.Refused:
		return "failure"
	}
	return "success"
}

// appendAudit appends the fields of an `audited` event outside of watership.
func appendAudit(o *jsonappend.Object, e *Event) {
	o.Member("user", "name", e.Audit.User)
	o.Member("client", "address", e.Audit.Address)
}

// appendWatershipAudit appends its fields that ECS does not have.
func appendWatershipAudit(o *jsonappend.Object, e *Event) {
	audit := o.Open("audit")
	o.String("operation", e.Audit.Operation)
	o.String("object", e.Audit.Object)
	o.String("method", e.Audit.Method)
	o.String("client", e.Audit.Client)
	o.Close(audit)
}

func readAuditFields(r *jsonscan.Reader, s *State) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "operation":
			s.Audit.Operation = r.Text()
		case "object":
			s.Audit.Object = r.Text()
		case "method":
			s.Audit.Method = r.Text()
		case "client":
			s.Audit.Client = r.Text()
		}
	})
}

// readText reads the only member of an object that counts.
func readText(r *jsonscan.Reader, member string) (text string) {
	r.Object(func(name []byte) {
		if string(name) == member {
			text = r.Text()
		}
	})
	return text
}
