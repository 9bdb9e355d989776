package eventfilter

import (
	"context"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/system"
)

// Choice selects what an action is on. All criteria must match.
type Choice struct {
	Filter
	DSL  map[string]any `json:"dsl,omitempty" doc:"Query in Elasticsearch's query DSL, with absolute times"`
	IDs  []string       `json:"ids,omitempty" maxItems:"10000" nullable:"false" doc:"Ids of messages or events"`
	UpTo int64          `json:"up_to,omitempty" minimum:"0" doc:"Highest event.sequence that the caller knows, such as up_to of a dry run: what was recorded later is left out; 0: no limit"`
}

// Object describes the choice in an audit event.
func (c Choice) Object() string {
	if len(c.IDs) > 0 {
		return wording.Plural(len(c.IDs), "id")
	}
	return c.Query
}

// IsEmpty reports whether a choice has no criterion but a period.
func (c Choice) IsEmpty() bool { return !c.HasQuery() && len(c.IDs) == 0 && len(c.DSL) == 0 }

// Need returns a problem if a choice is empty: an action on everything wants the query "*".
// criteria names the criteria of the request.
func (c Choice) Need(criteria string) error {
	if !c.IsEmpty() {
		return nil
	}
	return problem.BadRequest("expected "+criteria, `Give the query "*" to select everything there is.`)
}

// Chosen returns the query of a choice, for the events that the caller may see. The ids are no part
// of it.
func (c Choice) Chosen(ctx context.Context, sys *system.System) (kql.Node, error) {
	node, err := c.Node(ctx, sys, TextOfDSL(c.DSL))
	if err == nil && c.UpTo > 0 {
		node = kql.And{node, history.UpTo(c.UpTo)}
	}
	return node, err
}
