package subscriptions

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/subscription"
)

// as returns a context of a caller with a role that may use some queues; none: all.
func as(t *testing.T, role access.Role, queues ...string) context.Context {
	t.Helper()
	return access.NewContext(t.Context(), access.Identity{Name: "ann", Role: role, Queues: queues})
}

func wantStatus(t *testing.T, err error, status int) {
	t.Helper()
	var p *problem.Problem
	if !errors.As(err, &p) || p.GetStatus() != status {
		t.Errorf("%v, want the status %d", err, status)
	}
}

func newRequest(r Request) *CreateInput { return &CreateInput{Body: NewSubscription{Request: r}} }

func TestAURLNeedsAnAdmin(t *testing.T) {
	o := operations{newService(t)}
	request := newRequest(Request{Name: "a", From: "now", URL: "https://93.184.215.14/"})
	_, err := o.create(as(t, access.Operator), request)
	wantStatus(t, err, http.StatusForbidden)
	if _, err := o.create(as(t, access.Admin), request); err != nil {
		t.Error(err)
	}
}

func TestACallerNeedsTheQueueOfTheTarget(t *testing.T) {
	o := operations{newService(t)}
	_, err := o.create(as(t, access.Operator, "mine"), newRequest(Request{Name: "a", From: "now", Queue: "theirs"}))
	wantStatus(t, err, http.StatusForbidden)
	if _, err := o.create(as(t, access.Operator, "mine"), newRequest(Request{Name: "a", From: "now", Queue: "mine"})); err != nil {
		t.Error(err)
	}
}

func TestZonesOfTimes(t *testing.T) {
	o := operations{newService(t)}
	for zone, good := range map[string]bool{"": true, "+02:00": true, "Europe/Berlin": true, "Mars/Olympus": false} {
		request := newRequest(Request{Name: "z" + string(rune('a'+len(zone))), From: "now", Queue: "q"})
		request.Body.Zone = zone
		_, err := o.create(as(t, access.Admin), request)
		if good && err != nil {
			t.Errorf("%q: %v", zone, err)
		} else if !good {
			wantStatus(t, err, http.StatusBadRequest)
		}
	}
}

// To a caller, a subscription of others is one that does not exist.
func TestSubscriptionsOfOthersAreInvisible(t *testing.T) {
	o := operations{newService(t)}
	o.subscribe(t, "all")
	limited, name := as(t, access.Operator, "mine"), NameInput{"all"}
	pausing := &PauseInput{NameInput: name}
	pausing.Body.Reason = "x"
	rewinding := &RewindInput{NameInput: name}
	rewinding.Body.To = "start"
	for what, do := range map[string]func() error{
		"get":    func() error { _, err := o.get(limited, &name); return err },
		"pause":  func() error { _, err := o.pause(limited, pausing); return err },
		"resume": func() error { _, err := o.resume(limited, &ActInput{NameInput: name}); return err },
		"skip":   func() error { _, err := o.skipRemoved(limited, &ActInput{NameInput: name}); return err },
		"rewind": func() error { _, err := o.rewind(limited, rewinding); return err },
		"delete": func() error { _, err := o.delete(limited, &DeleteInput{NameInput: name}); return err },
		"parked": func() error { _, err := o.parked(limited, &name); return err },
		"retry":  func() error { _, err := o.retryParked(limited, &PositionsInput{NameInput: name}); return err },
		"drop":   func() error { _, err := o.dropParked(limited, &PositionsInput{NameInput: name}); return err },
	} {
		var none *subscription.NotFoundError
		if err := do(); !errors.As(err, &none) {
			t.Errorf("%s: %v", what, err)
		}
	}
	list, err := o.list(limited, nil)
	if err != nil || len(list.Body.Subscriptions) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if v, err := o.Show(t.Context(), "all"); err != nil || v.State != "active" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestCallersSeeTheirSubscriptions(t *testing.T) {
	o := operations{newService(t)}
	mine := as(t, access.Operator, "mine")
	_, err := o.create(mine, newRequest(Request{Name: "own", From: "now", Queue: "mine"}))
	must(t, err)
	o.subscribe(t, "all")
	for name, test := range map[string]struct {
		ctx  context.Context
		want int
	}{"limited": {mine, 1}, "without limits": {as(t, access.Viewer), 2}, "nobody": {t.Context(), 0}} {
		if list, err := o.list(test.ctx, nil); err != nil || len(list.Body.Subscriptions) != test.want {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
}

func TestOperationsChangeASubscription(t *testing.T) {
	o, admin := operations{newService(t)}, as(t, access.Admin)
	o.subscribe(t, "all")
	pausing := &PauseInput{NameInput: NameInput{"all"}}
	pausing.Body.Reason = "holiday"
	if out, err := o.pause(admin, pausing); err != nil || out.Body.State != "paused" || out.Body.ChangedBy != "ann" {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err := o.resume(admin, &ActInput{NameInput: NameInput{"all"}}); err != nil || out.Body.State != "active" {
		t.Errorf("%+v, %v", out, err)
	}
	configuring := &ConfigureInput{NameInput: NameInput{"all"}}
	if _, err := o.configure(admin, configuring); err == nil {
		t.Error("nothing is changed")
	}
	query, unlimited := "routing_key: paid", 0
	configuring.Body.Settings = Settings{Query: &query, OnPoison: "stop", MaxBacklog: &unlimited}
	if out, err := o.configure(admin, configuring); err != nil || !strings.Contains(out.Body.Query, "paid") || out.Body.OnPoison != "stop" || out.Body.Target.MaxBacklog != 0 || out.Body.ChangedBy != "ann" {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := o.delete(admin, &DeleteInput{NameInput: NameInput{"all"}}); err != nil {
		t.Error(err)
	}
}

// Who may send no events to a URL changes no subscription to one.
func TestAURLIsConfiguredByAnAdmin(t *testing.T) {
	o := operations{newService(t)}
	_, err := o.Subscribe(t.Context(), Request{Name: "mails", From: "start", URL: "https://mails.example.com/"}, ann())
	must(t, err)
	in := &ConfigureInput{NameInput: NameInput{"mails"}}
	in.Body.OnPoison = "stop"
	_, err = o.configure(as(t, access.Operator), in)
	wantStatus(t, err, http.StatusForbidden)
	if out, err := o.configure(as(t, access.Admin), in); err != nil || out.Body.OnPoison != "stop" {
		t.Errorf("an admin: %+v, %v", out, err)
	}
}

// An action reads the record of a subscription. What it has not delivered is counted for those who ask,
// since that can take long, and fails where a query cannot be read any more.
func TestActionsCountNoEvents(t *testing.T) {
	o, admin := operations{newService(t)}, as(t, access.Admin)
	store, err := o.System.Store(t.Context())
	must(t, err)
	document, err := json.Marshal(subscription.Subscription{Name: "old", Source: "test", Query: "queue:", State: subscription.Active, Target: subscription.Target{Kind: subscription.ToQueue, Queue: "q"}})
	must(t, err)
	_, err = store.CreateRecord(t.Context(), "subscription", "old", document)
	must(t, err)
	o.park(t, "old", 1)
	name := NameInput{"old"}
	if _, err := o.get(admin, &name); err == nil {
		t.Error("its events are counted")
	}
	if out, err := o.parked(admin, &name); err != nil || len(out.Body.Parked) != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err := o.dropParked(admin, &PositionsInput{NameInput: name}); err != nil || out.Body.Changed != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := o.delete(admin, &DeleteInput{NameInput: name}); err != nil {
		t.Error(err)
	}
}

func TestOperationsOnParkedMessages(t *testing.T) {
	o, admin := operations{newService(t)}, as(t, access.Admin)
	o.subscribe(t, "all")
	first := o.park(t, "all", 1)
	o.park(t, "all", 2)
	list, err := o.parked(admin, &NameInput{"all"})
	if err != nil || len(list.Body.Parked) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	some := &PositionsInput{NameInput: NameInput{"all"}}
	some.Body.Positions = []string{first}
	if out, err := o.retryParked(admin, some); err != nil || out.Body.Changed != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err := o.dropParked(admin, &PositionsInput{NameInput: NameInput{"all"}}); err != nil || out.Body.Changed != 2 {
		t.Errorf("%+v, %v", out, err)
	}
}

// The queue of a target is one that the caller may use, and the events are more than it may see.
func TestASubscriptionToAllEventsIsInvisible(t *testing.T) {
	o := operations{newService(t)}
	_, err := o.create(as(t, access.Operator), newRequest(Request{Name: "everything", From: "now", Queue: "mine"}))
	must(t, err)
	list, err := o.list(as(t, access.Operator, "mine"), nil)
	if err != nil || len(list.Body.Subscriptions) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// The events are those of the caller, and the queue of the target is of others.
func TestASubscriptionToAQueueOfOthersIsInvisible(t *testing.T) {
	o := operations{newService(t)}
	_, err := o.create(as(t, access.Operator, "mine", "theirs"), newRequest(Request{Name: "both", From: "now", Queue: "theirs"}))
	must(t, err)
	for name, test := range map[string]struct {
		ctx  context.Context
		want bool
	}{
		"of its creator": {as(t, access.Operator, "mine", "theirs"), true},
		"of another":     {as(t, access.Operator, "mine"), false},
	} {
		_, err := o.get(test.ctx, &NameInput{"both"})
		var none *subscription.NotFoundError
		if errors.As(err, &none) == test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAViewerSeesSubscriptions(t *testing.T) {
	o := operations{newService(t)}
	o.subscribe(t, "all")
	got, err := o.get(as(t, access.Viewer), &NameInput{"all"})
	if err != nil || got.Body.Name != "all" || got.Body.State != "active" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNoSubscriptionsAreAnEmptyListInJSON(t *testing.T) {
	list, err := operations{newService(t)}.list(as(t, access.Viewer), nil)
	if err != nil || list.Body.Subscriptions == nil {
		t.Errorf("%+v, %v", list, err)
	}
}

// A program may have parts of bodies, and its errors quote them, so who may not read bodies sees neither, and lets no
// program read others.
func TestUpcastsAreHiddenAsBodiesAre(t *testing.T) {
	o := operations{newService(t)}
	store, err := o.System.Store(t.Context())
	must(t, err)
	sub := subscription.Subscription{
		Name: "old", Source: "test", Query: "routing_key: a", Target: subscription.Target{Kind: subscription.ToQueue, Queue: "q"}, OnPoison: subscription.Stop,
		State: subscription.Stopped, Reason: "event e cannot be delivered: " + subscription.UpcastFailed.Text("version 1: no total in secret"),
		Upcast: subscription.Upcast{Program: `"secret"`, Version: 1},
	}
	document, err := json.Marshal(sub)
	must(t, err)
	_, err = store.CreateRecord(t.Context(), "subscription", "old", document)
	must(t, err)
	document, err = json.Marshal(subscription.Parked{Subscription: "old", EventID: "e", Cause: subscription.UpcastFailed, Error: "version 1: no total in secret"})
	must(t, err)
	_, err = store.CreateRecord(t.Context(), "parked.old", "0", document)
	must(t, err)
	name := NameInput{"old"}
	reader := access.NewContext(t.Context(), access.Identity{Name: "bo", Role: access.Viewer, Bodies: true})
	for what, do := range map[string]func(ctx context.Context) (any, error){
		"list":   func(ctx context.Context) (any, error) { return o.list(ctx, nil) },
		"get":    func(ctx context.Context) (any, error) { return o.get(ctx, &name) },
		"parked": func(ctx context.Context) (any, error) { return o.parked(ctx, &name) },
		"resume": func(ctx context.Context) (any, error) { return o.resume(ctx, &ActInput{NameInput: name}) },
	} {
		for whose, ctx := range map[string]context.Context{"hidden": as(t, access.Operator), "shown": reader} {
			out, err := do(ctx)
			text, _ := json.Marshal(out)
			if err != nil || strings.Contains(string(text), "secret") != (whose == "shown") {
				t.Errorf("%s, %s: %s, %v", what, whose, text, err)
			}
		}
	}
	query := "routing_key: b"
	configuring, rewinding := &ConfigureInput{NameInput: name}, &RewindInput{NameInput: name}
	configuring.Body.Query, rewinding.Body.To = &query, "start"
	var refused *access.Error
	if _, err := o.configure(as(t, access.Operator), configuring); !errors.As(err, &refused) {
		t.Errorf("another query: %v", err)
	}
	if _, err := o.rewind(as(t, access.Operator), rewinding); !errors.As(err, &refused) {
		t.Errorf("another position: %v", err)
	}
}

// Another number of attempts keeps the rest of a policy that a program in Go has set.
func TestAttemptsOfAPolicy(t *testing.T) {
	o := operations{newService(t)}
	all, err := o.System.Subscriptions(t.Context())
	must(t, err)
	policy := &retry.Policy{Delays: []time.Duration{time.Hour}, Classes: map[string]retry.Policy{"payment": {}}, GiveUpAfter: time.Hour}
	_, err = all.Create(t.Context(), subscription.Subscription{Name: "old", Target: subscription.Target{Kind: subscription.ToHandler}, Policy: policy}, subscription.From{})
	must(t, err)
	three, none := 3, 0
	v, err := o.Configure(t.Context(), "old", Settings{Attempts: &three}, ann())
	must(t, err)
	kept, err := all.Get(t.Context(), "old")
	must(t, err)
	if v.Attempts != 3 || len(kept.Policy.Delays) != 2 || kept.Policy.GiveUpAfter != time.Hour || len(kept.Policy.Classes) != 1 {
		t.Errorf("%+v, %+v", v, kept.Policy)
	}
	if v, err := o.Configure(t.Context(), "old", Settings{Attempts: &none}, ann()); err != nil || v.Attempts != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// The target of a subscription gets the originals of redacted messages, so that on a server which opens them the permission
// is needed to create one, and to let it send others.
func TestSubscriptionsToOriginals(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	must(t, os.WriteFile(keys, []byte("a "+strings.Repeat("0b", 32)+"\n"), 0o600))
	opens := operations{newService(t, "WATERSHIP_REDACT_ORIGINAL_KEYS_FILE="+keys)}
	otto := func(may bool) context.Context {
		return access.NewContext(t.Context(), access.Identity{Name: "otto", Role: access.Operator, Originals: may})
	}
	query, backlog := "routing_key: b", 5
	create := func(o operations, name string, ctx context.Context) error {
		_, err := o.create(ctx, newRequest(Request{Name: name, From: "now", Queue: "copies", Query: "routing_key: a"}))
		return err
	}
	configure := func(ctx context.Context, to Settings) error {
		in := &ConfigureInput{NameInput: NameInput{"of-originals"}}
		in.Body.Settings = to
		_, err := opens.configure(ctx, in)
		return err
	}
	refuses := func(err error) bool {
		var p *problem.Problem
		return errors.As(err, &p) && p.GetStatus() == http.StatusForbidden && strings.Contains(p.Detail, "may not read originals")
	}
	if err := create(opens, "of-originals", otto(false)); !refuses(err) {
		t.Errorf("without the permission: %v", err)
	}
	if err := create(opens, "of-originals", otto(true)); err != nil {
		t.Errorf("with the permission: %v", err)
	}
	if err := configure(otto(false), Settings{Query: &query}); !refuses(err) {
		t.Errorf("another query without the permission: %v", err)
	}
	if err := configure(otto(false), Settings{MaxBacklog: &backlog}); err != nil {
		t.Errorf("another setting: %v", err)
	}
	if err := configure(otto(true), Settings{Query: &query}); err != nil {
		t.Errorf("another query with the permission: %v", err)
	}
	rewind := func(ctx context.Context) error {
		in := &RewindInput{NameInput: NameInput{"of-originals"}}
		in.Body.To = "start"
		_, err := opens.rewind(ctx, in)
		return err
	}
	if err := rewind(otto(false)); !refuses(err) {
		t.Errorf("to the start without the permission: %v", err)
	}
	if err := rewind(otto(true)); err != nil {
		t.Errorf("to the start with the permission: %v", err)
	}
	hashes := filepath.Join(t.TempDir(), "hashes")
	must(t, os.WriteFile(hashes, []byte(strings.Repeat("0b", 32)+"\n"), 0o600))
	redacts := operations{newService(t, "WATERSHIP_REDACT_HASH_KEY_FILE="+hashes, "WATERSHIP_REDACT_RULES=[{pattern: mail}]")}
	if err := create(redacts, "of-others", otto(false)); !refuses(err) {
		t.Errorf("where another process may open them: %v", err)
	}
	if err := create(operations{newService(t)}, "of-plain", otto(false)); err != nil {
		t.Errorf("where nothing is redacted: %v", err)
	}
}

// recorded has the audit events of a request.
type recorded struct{ events []access.Record }

func (r *recorded) Record(_ context.Context, e access.Record) error {
	r.events = append(r.events, e)
	return nil
}

func (r *recorded) Ready() error { return nil }

// A subscription by what bodies have says which messages match, so that its query is a search of bodies.
func TestSubscriptionsByBodiesAreSearches(t *testing.T) {
	o := operations{newService(t)}
	in := newRequest(Request{Name: "by-body", From: "now", Queue: "copies", Query: "body.json.customer: C-4711"})
	ask := func(reason string) (recorded, error) {
		var made recorded
		ctx := access.NewContext(t.Context(), access.Identity{Name: "otto", Role: access.Operator, Bodies: true, BodyReasons: true})
		_, err := o.create(access.Recording(ctx, &made, reason), in)
		return made, err
	}
	var refusal *access.Error
	if made, err := ask(""); !errors.As(err, &refusal) || refusal.Code != code.NeedsReason || len(made.events) > 0 {
		t.Errorf("without a reason: %v, %+v", err, made)
	}
	made, err := ask("ticket 7")
	if err != nil || len(made.events) != 1 || made.events[0].Action.Name != "search bodies" || made.events[0].Action.Reason != "ticket 7" {
		t.Errorf("with a reason: %v, %+v", err, made)
	}
}
