package messages

import (
	"context"
	"net/http"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
)

// GetStream declares the operation.
var GetStream = operation.Declare[StreamInput, StreamOutput](operation.Operation{
	Method: http.MethodGet, Path: "/streams/{id}", ID: "getStream", Tag: "messages", Role: access.Viewer,
	Summary: "Get the messages of a stream, in order",
	Text:    "Each message once, with what became of it, and the gaps and doubles in the versions of the whole stream.",
})

// StreamInput is the input of GetStream.
type StreamInput struct {
	ID     string `path:"id" maxLength:"1024" doc:"Id of the stream (watership.stream.id)" example:"order-42"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"Maximum number of messages"`
	To     string `query:"to" maxLength:"100" doc:"Only messages before this time, such as 2026-05-04T03:00:00Z"`
	Zone   string `query:"zone" maxLength:"100" doc:"Time zone of a time without one, by its name or its offset from UTC; none: the zone of the server" example:"Europe/Berlin"`
	Cursor string `query:"cursor" maxLength:"2000" pattern:"^[A-Za-z0-9_-]*$" doc:"Cursor of the page before, for the same stream, to and up_to_version"`

	UpToVersion string `query:"up_to_version" maxLength:"16" pattern:"^[0-9]*$" doc:"Only messages with this version or a lower one; none: all messages" example:"7"`
}

// StreamOutput is the output of GetStream.
type StreamOutput struct{ Body StreamPage }

// StreamPage is a page of a stream.
type StreamPage struct {
	history.Stream
	Cursor string `json:"cursor,omitempty" doc:"Continues after this page; none: this is the last"`
}

// within returns the query of the part of the stream that is asked for; nil: the whole stream.
func (in *StreamInput) within() (kql.Node, error) {
	filter := eventfilter.Filter{To: in.To, Zone: in.Zone}
	zone, err := filter.Location()
	if err != nil {
		return nil, err
	}
	var all kql.And
	if in.UpToVersion != "" {
		version := kql.Value{Pattern: kql.Pattern{in.UpToVersion}}
		all = append(all, kql.Range{Field: kql.Pattern{"watership.stream.version"}, Op: kql.LessOrEqual, Value: version})
	}
	if in.To != "" {
		before, err := filter.Period(zone).Limit(kql.All{})
		if err != nil {
			return nil, err
		}
		all = append(all, before)
	}
	if all == nil {
		return nil, nil
	}
	return all, nil
}

func (o operations) getStream(ctx context.Context, in *StreamInput) (*StreamOutput, error) {
	store, err := eventfilter.Visible(ctx, o.System)
	if err != nil {
		return nil, err
	}
	page := history.StreamPage{ID: in.ID, Limit: in.Limit, Kept: o.System.Settings().Store.Retention.Traffic}
	if page.Cursor, err = operation.ParseCursor[history.StreamCursor](in.Cursor); err != nil {
		return nil, err
	}
	if page.Within, err = in.within(); err != nil {
		return nil, err
	}
	found, next, err := history.FindStream(ctx, store, page, o.reporters)
	found.Limited = access.FromContext(ctx).Limited()
	out := &StreamOutput{StreamPage{Stream: found}}
	if next != (history.StreamCursor{}) {
		out.Body.Cursor = operation.FormatCursor(next)
	}
	return out, err
}
