package messages

import (
	"context"
	"net/http"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/schemas"
)

// The operations of this file.
var (
	CountEvents = operation.Declare[CountInput, CountOutput](operation.Operation{
		Method: http.MethodGet, Path: "/events/count", ID: "countEvents", Tag: "events", Role: access.Viewer,
		Summary: "Count events",
	})
	CountValues = operation.Declare[ValuesInput, ValuesOutput](operation.Operation{
		Method: http.MethodGet, Path: "/events/values", ID: "countValues", Tag: "events", Role: access.Viewer,
		Summary: "Count events by the values of a field, the most frequent first",
	})
	CountOverTime = operation.Declare[HistogramInput, ValuesOutput](operation.Operation{
		Method: http.MethodGet, Path: "/events/histogram", ID: "countOverTime", Tag: "events", Role: access.Viewer,
		Summary: "Count events by steps of time", Text: "Days begin at midnight in the zone, or in UTC without one.",
	})
	ListFields = operation.Declare[struct{}, FieldsOutput](operation.Operation{
		Method: http.MethodGet, Path: "/fields", ID: "listFields", Tag: "events", Role: access.Viewer,
		Summary: "List the fields that queries can use",
	})
)

// CountInput is the input of CountEvents.
type CountInput struct{ eventfilter.QueryFilter }

// CountOutput is the output of CountEvents.
type CountOutput struct{ Body Count }

// Count is a number of events.
type Count struct {
	Count int64 `json:"count"`
}

func (o operations) countEvents(ctx context.Context, in *CountInput) (*CountOutput, error) {
	sel, err := in.Selection(ctx, o.System)
	if err != nil {
		return nil, err
	}
	store, err := o.System.Store(ctx)
	if err != nil {
		return nil, err
	}
	n, err := store.Count(ctx, sel)
	if err == nil && n == 0 {
		err = store.Check(ctx) // may be the reason
	}
	return &CountOutput{Count{n}}, err
}

// ValuesInput is the input of CountValues.
type ValuesInput struct {
	eventfilter.QueryFilter
	Field string `query:"field" required:"true" minLength:"1" maxLength:"1000" doc:"Field, by its full or short name" example:"queue"`
	Limit int    `query:"limit" minimum:"1" maximum:"10000" default:"50" doc:"Maximum number of values"`
}

// ValuesOutput is the output of CountValues and CountOverTime.
type ValuesOutput struct{ Body Values }

// Values counts the events of a selection by the values of a field.
type Values struct {
	Field   string  `json:"field" doc:"Full name of the field"`
	Values  []Value `json:"values" nullable:"false"`
	Others  int64   `json:"others" doc:"Events with values that are not listed"`
	Without int64   `json:"without" doc:"Events without the field"`
	Inexact int64   `json:"inexact" doc:"Greatest error of a count, which may be too low"`

	Step   float64  `json:"step_seconds,omitempty" doc:"Length of each step, of a histogram by action"`
	Series []Series `json:"series,omitempty" nullable:"false" doc:"The same events by action, of a histogram by action"`
}

// Series counts the events with one value in each step of time.
type Series struct {
	Value  string  `json:"value"`
	Counts []int64 `json:"counts" nullable:"false" doc:"One count for each of the values of the histogram"`
}

// Value is a value of a field.
type Value struct {
	Value string `json:"value"`
	Count int64  `json:"count"`
}

func (o operations) countValues(ctx context.Context, in *ValuesInput) (*ValuesOutput, error) {
	if err := checkFieldToCount(ctx, o.System, in.Field); err != nil {
		return nil, err
	}
	sel, err := in.Selection(ctx, o.System)
	if err != nil {
		return nil, err
	}
	store, err := o.System.Store(ctx)
	if err != nil {
		return nil, err
	}
	field, counts, err := o.System.Aggregate(ctx, store, sel, in.Field, in.Limit)
	if err == nil && len(counts.Values) == 0 && counts.Without == 0 {
		err = store.Check(ctx)
	}
	return &ValuesOutput{newValues(field.Name, counts)}, err
}

// checkFieldToCount refuses fields of bodies for callers that may not read bodies.
func checkFieldToCount(ctx context.Context, sys *system.System, name string) error {
	full, err := fieldNames(sys, []string{name})
	if err == nil && namesBody(full) {
		err = access.ReadBodies(ctx, name)
	}
	return err
}

func newValues(field string, counts eventstore.Aggregation) Values {
	values := Values{Field: field, Values: make([]Value, len(counts.Values)), Others: counts.Others, Without: counts.Without, Inexact: counts.Inexact}
	for i, bucket := range counts.Values {
		values.Values[i] = Value{bucket.Text, bucket.Count}
	}
	return values
}

// HistogramInput is the input of CountOverTime.
type HistogramInput struct {
	eventfilter.QueryFilter
	Field string `query:"field" default:"@timestamp" maxLength:"1000" doc:"Field with a time"`
	Steps int    `query:"steps" minimum:"2" maximum:"3000" default:"40" doc:"Maximum number of steps"`
	By    string `query:"by" enum:"action" doc:"Count published, handled, retry_scheduled, poisoned, replayed and discarded events of the whole period, each action by itself"`
}

func (o operations) countOverTime(ctx context.Context, in *HistogramInput) (*ValuesOutput, error) {
	zone, err := eventfilter.ParseZone("zone", in.Zone)
	if err != nil {
		return nil, err
	}
	sel, err := in.Selection(ctx, o.System)
	if err != nil {
		return nil, err
	}
	if in.By != "" {
		return o.countActions(ctx, in, sel, zone)
	}
	store, err := o.System.Store(ctx)
	if err != nil {
		return nil, err
	}
	field, counts, err := o.System.Histogram(ctx, store, sel, in.Field, in.Steps, zone)
	if err == nil && len(counts.Values) == 0 {
		err = store.Check(ctx)
	}
	return &ValuesOutput{newValues(field.Name, counts)}, err
}

func (o operations) countActions(ctx context.Context, in *HistogramInput, sel eventstore.Selection, zone *time.Location) (*ValuesOutput, error) {
	actions := []schemas.Action{schemas.Published, schemas.Handled, schemas.RetryScheduled, schemas.Poisoned, schemas.Replayed, schemas.Discarded}
	over, counts, err := o.System.HistogramByAction(ctx, sel, in.Period(zone), in.Steps, actions)
	values := Values{Field: "@timestamp", Values: make([]Value, over.Count), Step: over.Length.Seconds()}
	for i := range values.Values {
		values.Values[i].Value = over.Text(i)
	}
	for i, action := range actions {
		values.Series = append(values.Series, Series{string(action), append([]int64{}, counts[i]...)})
		for at, n := range counts[i] {
			values.Values[at].Count += n
		}
	}
	if err == nil && over.Count == 0 {
		err = o.System.CheckStore(ctx)
	}
	return &ValuesOutput{values}, err
}

// FieldsOutput is the output of ListFields.
type FieldsOutput struct{ Body Fields }

// Fields are the fields of events.
type Fields struct {
	Fields []Field `json:"fields" nullable:"false"`
	Labels []Field `json:"labels" nullable:"false" doc:"Labels that the configuration makes of headers, below the families"`
}

// Field is a field of events. Below a family, whose name ends in .*, and below a
// flattened field any name can be searched.
type Field struct {
	Name  string `json:"name"`
	Short string `json:"short" doc:"Shortest name that means the field" example:"queue"`
	Type  string `json:"type" example:"keyword"`
}

func (o operations) listFields(context.Context, *struct{}) (*FieldsOutput, error) {
	fields, err := o.System.Fields()
	out := &FieldsOutput{}
	out.Body.Fields = make([]Field, len(fields.Known))
	for i, field := range fields.Known {
		out.Body.Fields[i] = Field{field.Name, fields.Short(field.Name), string(field.Type)}
	}
	out.Body.Labels = make([]Field, len(fields.Labels))
	for i, label := range fields.Labels {
		field, _ := fields.Lookup(label)
		out.Body.Labels[i] = Field{label, fields.Short(label), string(field.Type)}
	}
	return out, err
}
