package schemas

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas/internal/jsonappend"
	"github.com/watershipmq/watership/schemas/jsonscan"
)

// writeAudit writes an action of a user, for an `audited` event.
func (s State) writeAudit(h typedTable) {
	if s.Audit == (State{}.Audit) {
		return
	}
	t := typedTable{}
	t.setText("user", shorten(s.Audit.User, longestName))
	t.setText("method", shorten(s.Audit.Method, longestName))
	t.setText("address", shorten(s.Audit.Address, longestName))
	t.setText("operation", shorten(s.Audit.Operation, longestName))
	t.setText("object", shorten(s.Audit.Object, errorBudget))
	t.setText("reason", shorten(s.Audit.Reason, 4*errorBudget)) // 1,000 characters
	t.setFlag("refused", s.Audit.Refused)
	h[headerAudit] = amqp.Table(t)
}

// readAudit reads what writeAudit wrote. Only events that Watership published have it: a
// state that travels with a message never does, whatever the headers of the message say.
func (s *State) readAudit(headers amqp.Table) {
	table, _ := headers[headerAudit].(amqp.Table)
	t := typedTable(table)
	s.Audit.User, s.Audit.Method, s.Audit.Address = t.text("user"), t.text("method"), t.text("address")
	s.Audit.Operation, s.Audit.Object, s.Audit.Reason = t.text("operation"), t.text("object"), t.text("reason")
	s.Audit.Refused = t.int("refused") == 1
}

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
