package quarantine

import (
	"errors"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// plan counts what a rewrite would write.
func (f *faulty) plan(t *testing.T, node kql.Node) Plan {
	t.Helper()
	plan, err := Finder{Store: f, Owns: schemas.Topology{}.Owns}.Plan(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// keep stores an event.
func (f *faulty) keep(t *testing.T, e schemas.Event) {
	t.Helper()
	results, err := f.Create(t.Context(), []schemas.Document{schemas.DocumentFormat{}.Document(e)})
	if err != nil || results[0].Status != eventstore.Created {
		t.Fatalf("%+v, %v", results, err)
	}
}

func TestAPlanCountsEventsByTheirActions(t *testing.T) {
	f := quarantined(t, 2)
	handled := published(3)
	handled.Action = schemas.Handled
	f.keep(t, handled.Quarantine("too many fields"))
	if got := f.plan(t, kql.All{}); got.Matched != 3 || got.Actions[schemas.Published] != 2 || got.Actions[schemas.Handled] != 1 || got.LeftOut[NoEvent] != 0 {
		t.Errorf("%+v", got)
	}
}

func TestAPlanOfAQuery(t *testing.T) {
	if got := quarantined(t, 3).plan(t, kql.FieldIs("event.id", "test:2")); got.Matched != 1 {
		t.Errorf("%+v", got)
	}
}

func TestEventsThatTheStoreTookAreInNoPlan(t *testing.T) {
	f := quarantined(t, 0)
	f.keep(t, published(1))
	if got := f.plan(t, kql.All{}); got.Matched != 0 || got.Actions == nil {
		t.Errorf("%+v", got)
	}
}

// A message that another program sent to the log is no event, and stays as it is.
func TestMessagesThatAreNoEventsStay(t *testing.T) {
	f := quarantined(t, 1)
	e := published(2)
	e.Action, e.Failure.Message = schemas.Quarantined, "no state"
	f.keep(t, e)
	if got := f.plan(t, kql.All{}); got.Matched != 1 || got.LeftOut[NoEvent] != 1 {
		t.Errorf("%+v", got)
	}
	f.run(t, 1, 0, 1)
}

func TestMessagesOfWatershipsOwnExchangesAreNoEvents(t *testing.T) {
	f := quarantined(t, 0)
	e := published(1)
	e.Envelope.Exchange = schemas.Topology{}.Events()
	f.keep(t, e.Quarantine("too many fields"))
	if got := f.plan(t, kql.All{}); got.Matched != 0 || got.LeftOut[NoEvent] != 1 {
		t.Errorf("%+v", got)
	}
}

func TestARewriteOfAQueryLeavesTheOthers(t *testing.T) {
	f := quarantined(t, 3)
	r := &Rewrite{Finder: Finder{Store: f, Owns: schemas.Topology{}.Owns}}
	if err := r.Run(t.Context(), kql.FieldIs("event.id", "test:2")); err != nil || r.Written != 1 {
		t.Errorf("%d are written, %v", r.Written, err)
	}
	if got := f.plan(t, kql.All{}); got.Matched != 2 {
		t.Errorf("%+v", got)
	}
}

func TestReasonsOfARewriteAreThoseOfTheFirstEvents(t *testing.T) {
	f := quarantined(t, maxReasons+3)
	f.fault = func(list []eventstore.Replacement) ([]eventstore.Result, error) {
		results := make([]eventstore.Result, len(list))
		for i, r := range list {
			if results[i] = (eventstore.Result{Status: eventstore.Refused, Reason: "again"}); r.Document.Stream != schemas.Traffic {
				results[i] = eventstore.Result{Status: eventstore.Created}
			}
		}
		return results, nil
	}
	r := &Rewrite{Finder: Finder{Store: f, Owns: schemas.Topology{}.Owns}}
	if err := r.Run(t.Context(), kql.All{}); err != nil {
		t.Fatal(err)
	}
	if r.Refused != maxReasons+3 || len(r.Reasons) != maxReasons || r.Reasons[0] != (Refusal{"test:1", "again"}) {
		t.Errorf("%d are refused: %+v", r.Refused, r.Reasons)
	}
}

func TestAStoreWithoutRightsEndsARewrite(t *testing.T) {
	f, refused := quarantined(t, 2), &eventstore.Error{Kind: eventstore.Unauthorized, Reason: "403"}
	f.fault = func([]eventstore.Replacement) ([]eventstore.Result, error) { return nil, refused }
	r := &Rewrite{Finder: Finder{Store: f, Owns: schemas.Topology{}.Owns}}
	if err := r.Run(t.Context(), kql.All{}); !errors.Is(err, refused) || r.Written != 0 {
		t.Errorf("%d are written, %v", r.Written, err)
	}
}
