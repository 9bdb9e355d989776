package wire

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// writeAudit writes an action of a user, for an `audited` event.
func writeAudit(s schemas.State, h header.Table) {
	if s.Audit == (schemas.State{}.Audit) {
		return
	}
	t := header.Table{}
	t.SetText("user", header.Shorten(s.Audit.User, longestName))
	t.SetText("method", header.Shorten(s.Audit.Method, longestName))
	t.SetText("address", header.Shorten(s.Audit.Address, longestName))
	t.SetText("client", header.Shorten(s.Audit.Client, longestName))
	t.SetText("operation", header.Shorten(s.Audit.Operation, longestName))
	t.SetText("object", header.Shorten(s.Audit.Object, errorBudget))
	t.SetText("reason", header.Shorten(s.Audit.Reason, 4*errorBudget)) // 1,000 characters
	t.SetFlag("refused", s.Audit.Refused)
	h[headerAudit] = amqp.Table(t)
}

// readAudit reads what writeAudit wrote. Only events that Watership published have it: a
// state that travels with a message never does, whatever the headers of the message say.
func readAudit(s *schemas.State, headers amqp.Table) {
	table, _ := headers[headerAudit].(amqp.Table)
	t := header.Table(table)
	s.Audit.User, s.Audit.Method, s.Audit.Address, s.Audit.Client = t.Text("user"), t.Text("method"), t.Text("address"), t.Text("client")
	s.Audit.Operation, s.Audit.Object, s.Audit.Reason = t.Text("operation"), t.Text("object"), t.Text("reason")
	s.Audit.Refused = t.Int("refused") == 1
}

// writeTriage writes a decision about a group of failures, for a `triaged` event.
func writeTriage(s schemas.State, h header.Table) {
	if s.Triage == (schemas.State{}.Triage) {
		return
	}
	t := header.Table{}
	t.SetText("group", header.Shorten(s.Triage.Group, longestName))
	t.SetText("decision", header.Shorten(s.Triage.Decision, longestName))
	t.SetText("assignee", header.Shorten(s.Triage.Assignee, errorBudget))
	t.SetTime("until", s.Triage.Until)
	t.SetInt("count", int64(s.Triage.Count))
	t.SetInt("up-to", s.Triage.UpTo)
	h[headerTriage] = amqp.Table(t)
}

// readTriage reads what writeTriage wrote. Only events that Watership published have it, as
// with readAudit.
func readTriage(s *schemas.State, headers amqp.Table) {
	table, _ := headers[headerTriage].(amqp.Table)
	t := header.Table(table)
	s.Triage.Group, s.Triage.Decision, s.Triage.Assignee = t.Text("group"), t.Text("decision"), t.Text("assignee")
	s.Triage.Until, s.Triage.Count = t.Time("until"), int(min(max(0, t.Int("count")), mostCounted))
	s.Triage.UpTo = min(max(0, t.Int("up-to")), mostExact)
}
