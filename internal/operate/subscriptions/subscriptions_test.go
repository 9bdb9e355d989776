package subscriptions

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

func newService(t *testing.T, environ ...string) Service {
	t.Helper()
	sys, _ := systemtest.Embedded(t, environ...)
	return Service{sys}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantMistake checks that an error is about the input, with a text.
func wantMistake(t *testing.T, err error, text string) {
	t.Helper()
	var input system.InputError
	if !errors.As(err, &input) || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, want a mistake with %q", err, text)
	}
}

// wantNone checks that an error says that there is no subscription with a name.
func wantNone(t *testing.T, err error, name string) {
	t.Helper()
	var none *subscription.NotFoundError
	if !errors.As(err, &none) || none.Name != name {
		t.Errorf("%v, want no subscription %q", err, name)
	}
}

// ann is an operator.
func ann() Caller { return Caller{Name: "ann", Zone: time.UTC} }

// subscribe creates a subscription of all events to a queue, from the start.
func (s Service) subscribe(t *testing.T, name string) Subscription {
	t.Helper()
	v, err := s.Subscribe(t.Context(), Request{Name: name, From: "start", Queue: "q"}, ann())
	must(t, err)
	return v
}

func TestSubscribeToAQueue(t *testing.T) {
	v := newService(t).subscribe(t, "all")
	if v.Name != "all" || !strings.Contains(v.Query, "published") || v.Target.Kind != "queue" || v.Target.Queue != "q" || v.State != "active" || v.CreatedBy != "ann" {
		t.Errorf("%+v", v)
	}
}

func TestDefaultsOfASubscription(t *testing.T) {
	s := newService(t)
	if v := s.subscribe(t, "queue"); v.OnPoison != "park" || v.Attempts != 0 || v.Target.MaxBacklog != subscription.DefaultMaxBacklog {
		t.Errorf("%+v", v)
	}
	v, err := s.Subscribe(t.Context(), Request{Name: "url", From: "now", URL: "https://93.184.215.14/hook?token=s3cret"}, ann())
	must(t, err)
	if v.Attempts != DefaultAttempts || v.Target.MaxBacklog != 0 || v.Target.Kind != "url" {
		t.Errorf("%+v", v)
	}
}

// The path and the query of a URL may be secret.
func TestAURLIsShownWithoutItsSecrets(t *testing.T) {
	v, err := newService(t).Subscribe(t.Context(), Request{Name: "url", From: "now", URL: "https://93.184.215.14/hook?token=s3cret"}, ann())
	must(t, err)
	if strings.Contains(v.Target.URL, "s3cret") || strings.Contains(v.Target.URL, "hook") || !strings.Contains(v.Target.URL, "https://93.184.215.14") {
		t.Errorf("%q", v.Target.URL)
	}
}

func TestBacklogs(t *testing.T) {
	s := newService(t)
	for name, test := range map[string]struct{ asked, want int }{"limited": {5, 5}, "unlimited": {0, 0}} {
		v, err := s.Subscribe(t.Context(), Request{Name: name, From: "now", Queue: "q", MaxBacklog: &test.asked}, ann())
		if err != nil || v.Target.MaxBacklog != test.want {
			t.Errorf("%s: %d, %v", name, v.Target.MaxBacklog, err)
		}
	}
}

func TestAttemptsOfAURL(t *testing.T) {
	s := newService(t)
	for name, attempts := range map[string]int{"some": 3, "unlimited": 0} {
		v, err := s.Subscribe(t.Context(), Request{Name: name, From: "now", URL: "https://93.184.215.14/", Attempts: &attempts}, ann())
		if err != nil || v.Attempts != attempts {
			t.Errorf("%s: %d, %v", name, v.Attempts, err)
		}
	}
}

func TestMistakesInRequests(t *testing.T) {
	s := newService(t)
	negative := -1
	for name, test := range map[string]struct {
		request Request
		want    string
	}{
		"no target":           {Request{Name: "a", From: "now"}, "expected a queue or a URL"},
		"two targets":         {Request{Name: "a", From: "now", Queue: "q", URL: "https://93.184.215.14/"}, "expected a queue or a URL"},
		"a private address":   {Request{Name: "a", From: "now", URL: "http://10.0.0.1/"}, "10.0.0.1"},
		"another scheme":      {Request{Name: "a", From: "now", URL: "ftp://93.184.215.14/"}, "http"},
		"a name with a space": {Request{Name: "a b", From: "now", Queue: "q"}, `"a b" cannot be the name of a subscription`},
		"no name":             {Request{From: "now", Queue: "q"}, "cannot be the name of a subscription"},
		"a query":             {Request{Name: "a", From: "now", Queue: "q", Query: "queue: ("}, ""},
		"a field":             {Request{Name: "a", From: "now", Queue: "q", Query: "colour: red"}, "colour"},
		"a start":             {Request{Name: "a", From: "yesterday", Queue: "q"}, "yesterday"},
		"a backlog":           {Request{Name: "a", From: "now", Queue: "q", MaxBacklog: &negative}, "a backlog of -1 messages"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Subscribe(t.Context(), test.request, ann())
			wantMistake(t, err, test.want)
		})
	}
	if list, err := s.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestPrivateNetworksAreConfigured(t *testing.T) {
	s := newService(t, "WATERSHIP_SUBSCRIPTIONS_PRIVATE_NETWORKS=10.0.0.0/8")
	_, err := s.Subscribe(t.Context(), Request{Name: "a", From: "now", URL: "http://10.0.0.1/"}, ann())
	must(t, err)
}

func TestANameIsTakenOnce(t *testing.T) {
	s := newService(t)
	s.subscribe(t, "all")
	_, err := s.Subscribe(t.Context(), Request{Name: "all", From: "now", Queue: "other"}, ann())
	wantMistake(t, err, "all")
	if v, err := s.Show(t.Context(), "all"); err != nil || v.Target.Queue != "q" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestQueriesHaveFullNames(t *testing.T) {
	v, err := newService(t).Subscribe(t.Context(), Request{Name: "a", Query: "queue: orders", From: "now", Queue: "q"}, ann())
	if err != nil || !strings.HasSuffix(v.Query, " and watership.queue: orders") {
		t.Errorf("%q, %v", v.Query, err)
	}
}

// A caller with limits gets no other events by a subscription.
func TestQueriesStayWithinTheLimitsOfTheirCreator(t *testing.T) {
	limited := ann()
	limited.Restrict = func(n kql.Node) (kql.Node, error) {
		return kql.And{n, kql.FieldIs("watership.queue", "orders")}, nil
	}
	v, err := newService(t).Subscribe(t.Context(), Request{Name: "a", Query: "action: handled", From: "now", Queue: "q"}, limited)
	if err != nil || !strings.Contains(v.Query, "watership.queue") || !strings.Contains(v.Query, "orders") {
		t.Errorf("%q, %v", v.Query, err)
	}
	limited.Restrict = func(kql.Node) (kql.Node, error) { return nil, errors.New("nothing is allowed") }
	if _, err := newService(t).Subscribe(t.Context(), Request{Name: "b", From: "now", Queue: "q"}, limited); err == nil {
		t.Error("a caller without rights subscribes")
	}
}

func TestSubscriptionsAreSortedByName(t *testing.T) {
	s := newService(t)
	for _, name := range []string{"b", "c", "a"} {
		s.subscribe(t, name)
	}
	list, err := s.List(t.Context())
	must(t, err)
	var got []string
	for _, v := range list {
		got = append(got, v.Name)
		if v.LagEvents != nil {
			t.Error("a list counts no events")
		}
	}
	if !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("%q", got)
	}
}

func TestShowCountsTheEventsThatAreNotDelivered(t *testing.T) {
	s := newService(t)
	systemtest.Record(t, s.System, schemas.Event{Action: schemas.Published}, schemas.Event{Action: schemas.Published}, schemas.Event{Action: schemas.Handled})
	s.subscribe(t, "all")
	v, err := s.Show(t.Context(), "all")
	if err != nil || v.LagEvents == nil || *v.LagEvents != 2 || v.CaughtUp {
		t.Errorf("%+v, %v", v, err)
	}
	_, err = s.Show(t.Context(), "nobody")
	wantNone(t, err, "nobody")
}

func TestPauseAndResume(t *testing.T) {
	s := newService(t)
	s.subscribe(t, "all")
	bob := Caller{Name: "bob"}
	v, err := s.Change(t.Context(), "all", Change{Action: Pause, Reason: "holiday"}, bob)
	if err != nil || v.State != "paused" || v.Reason != "holiday" || v.ChangedBy != "bob" || v.Changed == nil {
		t.Errorf("%+v, %v", v, err)
	}
	v, err = s.Change(t.Context(), "all", Change{Action: Resume}, ann())
	if err != nil || v.State != "active" || v.Reason != "" || v.ChangedBy != "ann" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestRewind(t *testing.T) {
	s := newService(t)
	systemtest.Record(t, s.System, schemas.Event{Action: schemas.Published})
	v, err := s.Subscribe(t.Context(), Request{Name: "new", From: "now", Queue: "q"}, ann())
	must(t, err)
	rewound, err := s.Change(t.Context(), "new", Change{Action: Rewind, To: "start"}, ann())
	if err != nil || rewound.Position == v.Position {
		t.Errorf("%q then %q, %v", v.Position, rewound.Position, err)
	}
	shown, err := s.Show(t.Context(), "new")
	if err != nil || *shown.LagEvents != 1 {
		t.Errorf("%+v, %v", shown, err)
	}
}

func TestDelete(t *testing.T) {
	s := newService(t)
	s.subscribe(t, "all")
	v, err := s.Change(t.Context(), "all", Change{Action: Delete}, ann())
	if err != nil || v.Name != "" {
		t.Errorf("%+v, %v", v, err)
	}
	_, err = s.Show(t.Context(), "all")
	wantNone(t, err, "all")
}

func TestChangesOfASubscriptionThatThereIsNot(t *testing.T) {
	s := newService(t)
	for name, change := range map[string]Change{
		"pause":  {Action: Pause, Reason: "x"},
		"resume": {Action: Resume},
		"rewind": {Action: Rewind, To: "start"},
		"delete": {Action: Delete},
		"skip":   {Action: ResumeAfterRemoved},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Change(t.Context(), "nobody", change, ann())
			wantNone(t, err, "nobody")
		})
	}
}

func TestMistakesInChanges(t *testing.T) {
	s := newService(t)
	s.subscribe(t, "all")
	for name, change := range map[string]Change{
		"an unknown action": {Action: "destroy"}, "no reason": {Action: Pause}, "an unknown time": {Action: Rewind, To: "somewhere"},
	} {
		var mistake system.InputError
		if _, err := s.Change(t.Context(), "all", change, ann()); !errors.As(err, &mistake) {
			t.Errorf("%s is no mistake: %v", name, err)
		}
	}
	if v, err := s.Show(t.Context(), "all"); err != nil || v.State != "active" {
		t.Errorf("%+v, %v", v, err)
	}
}

// park stores a parked message, as a runner does, and returns its position.
func (s Service) park(t *testing.T, name string, sequence int64) string {
	t.Helper()
	store, err := s.System.Store(t.Context())
	must(t, err)
	at := eventstore.Cursor{Sequence: sequence, EventID: "event"}
	document, err := json.Marshal(subscription.Parked{
		Subscription: name, Position: at, EventID: "event", Action: schemas.Published, MessageID: "m", Error: "refused", Time: time.Now(),
	})
	must(t, err)
	position := subscription.FormatPosition(at)
	version, err := store.CreateRecord(t.Context(), "parked."+name, fmt.Sprintf("%019d:event", sequence), document)
	if err != nil || version == "" {
		t.Fatalf("%q, %v", version, err)
	}
	return position
}

func TestParkedMessages(t *testing.T) {
	s := newService(t)
	s.subscribe(t, "all")
	second, first := s.park(t, "all", 2), s.park(t, "all", 1)
	list, err := s.Parked(t.Context(), "all")
	if err != nil || len(list) != 2 || list[0].Position != first || list[1].Position != second {
		t.Fatalf("%+v, %v", list, err)
	}
	if p := list[0]; p.EventID != "event" || p.Action != "published" || p.MessageID != "m" || p.Error != "refused" || p.Retry {
		t.Errorf("%+v", p)
	}
}

func TestNoParkedMessages(t *testing.T) {
	s := newService(t)
	s.subscribe(t, "all")
	if list, err := s.Parked(t.Context(), "all"); err != nil || list == nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	_, err := s.Parked(t.Context(), "nobody")
	wantNone(t, err, "nobody")
	_, err = s.ChangeParked(t.Context(), "nobody", true, nil, ann())
	wantNone(t, err, "nobody")
}

func TestDroppingParkedMessages(t *testing.T) {
	s := newService(t)
	s.subscribe(t, "all")
	first := s.park(t, "all", 1)
	s.park(t, "all", 2)
	s.park(t, "all", 3)
	if n, err := s.ChangeParked(t.Context(), "all", true, []string{first}, ann()); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := s.ChangeParked(t.Context(), "all", true, nil, ann()); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}
	if list, err := s.Parked(t.Context(), "all"); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestRetryingParkedMessages(t *testing.T) {
	s := newService(t)
	s.subscribe(t, "all")
	first := s.park(t, "all", 1)
	s.park(t, "all", 2)
	if n, err := s.ChangeParked(t.Context(), "all", false, []string{first}, ann()); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	list, err := s.Parked(t.Context(), "all")
	if err != nil || len(list) != 2 || !list[0].Retry || list[1].Retry {
		t.Errorf("%+v, %v", list, err)
	}
}
