package subscriptions

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
)

// configured changes the settings of a subscription to a queue or, with webhook, to a URL.
func (s Service) configured(t *testing.T, webhook bool, to Settings) (Subscription, error) {
	t.Helper()
	r := Request{Name: "a", From: "start", Queue: "q"}
	if webhook {
		r.Queue, r.URL = "", "https://93.184.215.14/"
	}
	_, err := s.Subscribe(t.Context(), r, ann())
	must(t, err)
	return s.Configure(t.Context(), "a", to, ann())
}

func TestSettingsThatAreLeftOutStay(t *testing.T) {
	five := 5
	v, err := newService(t).configured(t, false, Settings{MaxBacklog: &five})
	if err != nil || v.Target.MaxBacklog != 5 || v.OnPoison != "park" || v.Target.Queue != "q" || !strings.Contains(v.Query, "published") {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestAQueryOfSettingsHasFullNames(t *testing.T) {
	query := "queue: orders"
	if v, err := newService(t).configured(t, false, Settings{Query: &query}); err != nil || !strings.Contains(v.Query, "watership.queue: orders") {
		t.Errorf("%q, %v", v.Query, err)
	}
}

func TestCallsOfAURLSideBySide(t *testing.T) {
	stream, three := "stream", 3
	if v, err := newService(t).configured(t, true, Settings{By: &stream, Concurrency: &three}); err != nil || v.By != "stream" || v.Concurrency != 3 {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestMistakesInSettings(t *testing.T) {
	backlog, order, query := -1, "priority", "colour: red"
	for name, test := range map[string]struct {
		to   Settings
		want string
	}{
		"none":      {Settings{}, "expected a setting to change: query, upcast, on_poison, max_backlog, attempts, by or concurrency"},
		"a backlog": {Settings{MaxBacklog: &backlog}, "a backlog of -1 messages: expected 1 or more, or 0 for no limit"},
		"an order":  {Settings{By: &order}, `by "priority": expected stream or position`},
		"a query":   {Settings{Query: &query}, "colour"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newService(t).configured(t, false, test.to)
			wantMistake(t, err, test.want)
		})
	}
}

func TestSettingsOfNoSubscription(t *testing.T) {
	attempts := 3
	for name, to := range map[string]Settings{"one": {OnPoison: "stop"}, "one that is read first": {Attempts: &attempts}} {
		t.Run(name, func(t *testing.T) {
			_, err := newService(t).Configure(t.Context(), "nobody", to, ann())
			wantNone(t, err, "nobody")
		})
	}
}

// Two operators change other settings at the same time: neither undoes the change of the other.
func TestTwoChangesOfSettingsAtOnce(t *testing.T) {
	s, backlog := newService(t), 5
	s.subscribe(t, "a")
	var changing sync.WaitGroup
	for _, to := range []Settings{{MaxBacklog: &backlog}, {OnPoison: "stop"}} {
		changing.Go(func() {
			if _, err := s.Configure(t.Context(), "a", to, ann()); err != nil {
				t.Error(err)
			}
		})
	}
	changing.Wait()
	if v, err := s.Show(t.Context(), "a"); err != nil || v.Target.MaxBacklog != 5 || v.OnPoison != "stop" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestAViewerChangesNoSubscription(t *testing.T) {
	s, set := newService(t), operation.NewLocal()
	s.subscribe(t, "a")
	Implement(set, s.System)
	viewer, name := as(t, access.Viewer), NameInput{"a"}
	_, created := CreateSubscription.Call(viewer, set, CreateInput{Body: NewSubscription{Request: Request{Name: "b", From: "now", Queue: "q"}}})
	_, paused := PauseSubscription.Call(viewer, set, PauseInput{NameInput: name})
	_, configured := ConfigureSubscription.Call(viewer, set, ConfigureInput{NameInput: name})
	_, deleted := DeleteSubscription.Call(viewer, set, DeleteInput{NameInput: name})
	_, dropped := DropParked.Call(viewer, set, PositionsInput{NameInput: name})
	for what, err := range map[string]error{"create": created, "pause": paused, "configure": configured, "delete": deleted, "drop": dropped} {
		if err == nil || err.Error() != "ann has the role viewer, and this needs operator" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A program that fails quotes the body of its message.
func TestAProgramNeedsThePermissionToReadBodies(t *testing.T) {
	o, program := operations{newService(t)}, "."
	o.subscribe(t, "a")
	in := &ConfigureInput{NameInput: NameInput{"a"}}
	in.Body.Upcast = &program
	if _, err := o.configure(as(t, access.Operator), in); err == nil {
		t.Error("a caller without bodies has set a program")
	}
	creating := newRequest(Request{Name: "b", From: "now", Queue: "q", Upcast: program})
	if _, err := o.create(as(t, access.Operator), creating); err == nil {
		t.Error("a caller without bodies has made a subscription with a program")
	}
}

func TestZonesOfSettings(t *testing.T) {
	o := operations{newService(t)}
	o.subscribe(t, "a")
	in := &ConfigureInput{NameInput: NameInput{"a"}}
	in.Body.OnPoison, in.Body.Zone = "stop", "Mars/Olympus"
	_, err := o.configure(as(t, access.Operator), in)
	wantStatus(t, err, http.StatusBadRequest)
	in.Body.Zone = time.UTC.String()
	if out, err := o.configure(as(t, access.Operator), in); err != nil || out.Body.OnPoison != "stop" {
		t.Errorf("%+v, %v", out, err)
	}
}
