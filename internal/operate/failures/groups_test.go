package failures

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
)

func TestGetAGroup(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x"), failed("orders", "b", "x"))
	got, err := operations{s}.get(as(t), &GroupInput{groupOf("orders", "x")})
	must(t, err)
	if g := got.Body; g.Count != 2 || g.Queue != "orders" || g.Class != "x" || g.Notes == nil || g.Query == "" {
		t.Errorf("%+v", g)
	}
}

func TestTheQueryOfAGroupFindsItsFailures(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x"), failed("orders", "b", "x"), failed("orders", "c", "y"))
	got, err := operations{s}.get(as(t), &GroupInput{groupOf("orders", "x")})
	must(t, err)
	in := GroupsInput{}
	in.Query = got.Body.Query
	if page := s.list(t, as(t), in); page.Failures != 2 || !slices.Equal(page.ids(), []string{groupOf("orders", "x")}) {
		t.Errorf("%+v", page)
	}
}

func TestGroupsOfOthersAreInvisible(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x"))
	_, err := operations{s}.get(as(t, "mail"), &GroupInput{groupOf("orders", "x")})
	wantStatus(t, err, http.StatusNotFound, groupOf("orders", "x"))
}

func TestAGroupIsFoundAfterItsFailuresAreResolved(t *testing.T) {
	s, _ := newService(t)
	systemtest.Record(t, s.System, failed("orders", "a", "x"))
	group := groupOf("orders", "x")
	_, err := s.decide(t, as(t), group, GroupDecision{Decision: Assigned, Assignee: "bob"})
	must(t, err)
	_, err = discardAll(t.Context(), s.System, []string{"failure-a"}, reason.Decision{Operator: "ann", Reason: "x"})
	must(t, err)
	if _, err := awaitDiscarded(t.Context(), s.System, []string{"failure-a"}); err != nil {
		t.Fatal(err)
	}
	if g, err := s.Find(t.Context(), group, kql.All{}); err != nil || g.Count != 0 || g.Assignee != "bob" || g.Query == "" {
		t.Errorf("%+v, %v", g, err)
	}
}

func TestSeveralGroupsAreFoundInTheirOrder(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x"), failed("orders", "b", "y"), failed("mail", "c", "x"))
	ids := []string{groupOf("mail", "x"), groupOf("orders", "x"), groupOf("mail", "x")}
	found, err := s.FindAll(t.Context(), ids, kql.All{})
	must(t, err)
	for i, g := range found {
		if g.ID != ids[i] || g.Count != 1 {
			t.Errorf("group %d is %+v", i, g)
		}
	}
}

func TestOneUnknownGroupAmongSeveral(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x"))
	_, err := s.FindAll(t.Context(), []string{groupOf("orders", "x"), "nobody"}, kql.All{})
	var missing *NotFoundError
	if !errors.As(err, &missing) || missing.ID != "nobody" {
		t.Errorf("%v", err)
	}
}

func TestACursorThatCannotBeRead(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x"))
	for _, cursor := range []string{"x", "-1", "1.5"} {
		_, err := operations{s}.list(as(t), &GroupsInput{Cursor: cursor, Limit: 10})
		wantStatus(t, err, http.StatusBadRequest, "the cursor cannot be read")
	}
}

func TestACursorBehindTheEndIsAnEmptyPage(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x"))
	if page := s.list(t, as(t), GroupsInput{Cursor: "7"}); len(page.Groups) != 0 || page.Failures != 1 || page.Cursor != "" {
		t.Errorf("%+v", page)
	}
}

func TestNoFailuresAreEmptyListsInJSON(t *testing.T) {
	page := newStored(t).list(t, as(t), GroupsInput{})
	if page.Groups == nil || page.Queues == nil || page.Failures != 0 {
		t.Errorf("%+v", page)
	}
}

func TestAMistakeInAQuery(t *testing.T) {
	in := &GroupsInput{Limit: 10}
	in.Query = "queue:"
	_, err := operations{newStored(t)}.list(as(t), in)
	var mistake *kql.SyntaxError
	if !errors.As(err, &mistake) {
		t.Errorf("%v", err)
	}
}

func TestADecisionIsCheckedBeforeItsGroupIsRead(t *testing.T) {
	_, err := newStored(t).decide(t, as(t), "nobody", GroupDecision{Decision: "moved"})
	var input system.InputError
	if !errors.As(err, &input) || !strings.Contains(err.Error(), "decision \"moved\"") {
		t.Errorf("%v", err)
	}
}

func TestADecisionAboutOneGroupLeavesOthers(t *testing.T) {
	s, _ := newService(t)
	systemtest.Record(t, s.System, failed("orders", "a", "x"), failed("orders", "b", "y"))
	_, err := s.decide(t, as(t), groupOf("orders", "x"), GroupDecision{Decision: Assigned, Assignee: "bob"})
	must(t, err)
	if g, err := s.Find(t.Context(), groupOf("orders", "y"), kql.All{}); err != nil || g.Assignee != "" {
		t.Errorf("%+v, %v", g, err)
	}
}

func TestAMuteByCountSaysHowManyFailuresCame(t *testing.T) {
	s, _ := newService(t)
	systemtest.Record(t, s.System, failed("orders", "a", "x"))
	group := groupOf("orders", "x")
	_, err := s.decide(t, as(t), group, GroupDecision{Decision: Muted, Count: 2, Reason: "expected"})
	must(t, err)
	later := time.Now().Add(time.Hour) // after the sequence of the decision
	for n, muted := range []bool{true, false} {
		e := failed("orders", fmt.Sprint("later-", n), "x")
		e.Time = later.Add(time.Duration(n) * time.Second)
		systemtest.Record(t, s.System, e)
		g, err := s.Find(t.Context(), group, kql.All{})
		must(t, err)
		if (g.Muted != nil) != muted || muted && g.Muted.Failures != n+1 {
			t.Errorf("after %d more failures: %+v", n+1, g.Muted)
		}
	}
}

// A caller whose access to bodies cannot be recorded reads none.
func TestFailuresByAFieldOfTheBodyAreRecordedReads(t *testing.T) {
	s := newStored(t, failed("orders", "a", "x"))
	var refused *access.Error
	if _, err := s.by(t, as(t), "", "body.json.order"); !errors.As(err, &refused) || refused.Code != code.Forbidden {
		t.Errorf("%v", err)
	}
}

func TestFailuresByAFieldOfTheBody(t *testing.T) {
	one, two := failed("orders", "a", "x"), failed("orders", "b", "x")
	one.Envelope.Body, two.Envelope.Body = []byte(`{"order":{"country":"de"}}`), []byte(`{"order":{"country":"fr"}}`)
	one.Envelope.Properties.ContentType, two.Envelope.Properties.ContentType = "application/json", "application/json"
	one.Fingerprint, two.Fingerprint = "", ""
	s := newStored(t, one, two)
	fields, err := Fields(s.System, []string{"body.json.order.country"})
	must(t, err)
	got, err := s.ListBy(t.Context(), kql.All{}, fields)
	must(t, err)
	var values []string
	for _, g := range got.Groups {
		values = append(values, g.Values...)
	}
	if slices.Sort(values); !slices.Equal(values, []string{"de", "fr"}) {
		t.Errorf("%q", values)
	}
}

func TestTheLargestFieldGroupsAreFirst(t *testing.T) {
	s := newStored(t, failed("mail", "a", "x"), failed("orders", "b", "x"), failed("orders", "c", "x"))
	got, err := s.by(t, as(t), "", "queue")
	must(t, err)
	if len(got.Groups) != 2 || got.Groups[0].Values[0] != "orders" || got.Groups[0].Count != 2 {
		t.Errorf("%+v", got.Groups)
	}
}

func TestAFieldGroupHasItsTimesAndItsNewestMessage(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	first, last := failed("orders", "a", "x"), failed("orders", "b", "x")
	first.Time, last.Time = at, at.Add(time.Hour)
	got, err := newStored(t, last, first).by(t, as(t), "", "queue")
	must(t, err)
	if g := got.Groups[0]; !g.First.Equal(at) || !g.Last.Equal(at.Add(time.Hour)) || g.Example != "b" {
		t.Errorf("%+v", g)
	}
}

func TestNoFailuresByFields(t *testing.T) {
	got, err := newStored(t).by(t, as(t), "", "queue")
	if err != nil || got.Groups == nil || got.Failures != 0 || got.Total != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestADiscardOfNothing(t *testing.T) {
	s, _ := newService(t)
	done, err := discardAll(t.Context(), s.System, []string{"nobody"}, reason.Decision{Operator: "ann", Reason: "x"})
	if err != nil || done.Failures != 0 || len(done.Queues) != 0 {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestADiscardSaysWhoAndWhy(t *testing.T) {
	s, _ := newService(t)
	systemtest.Record(t, s.System, failed("orders", "a", "x"))
	_, err := discardAll(t.Context(), s.System, []string{"failure-a"}, reason.Decision{Operator: "ann", Reason: "obsolete"})
	must(t, err)
	_, err = awaitDiscarded(t.Context(), s.System, []string{"failure-a"})
	must(t, err)
	events := systemtest.Events(t, s.System, "action: discarded")
	if len(events) != 1 || events[0].ReplayOf != "failure-a" || events[0].Failure.Message != "obsolete (ann)" || events[0].Queue != "orders" {
		t.Errorf("%+v", events)
	}
}

func TestADiscardTwiceIsOneEvent(t *testing.T) {
	s, _ := newService(t)
	systemtest.Record(t, s.System, failed("orders", "a", "x"))
	for range 2 {
		_, err := discardAll(t.Context(), s.System, []string{"failure-a"}, reason.Decision{Operator: "ann", Reason: "x"})
		must(t, err)
		_, err = awaitDiscarded(t.Context(), s.System, []string{"failure-a"})
		must(t, err)
	}
	if n := len(systemtest.Events(t, s.System, "action: discarded")); n != 1 {
		t.Errorf("%d events", n)
	}
}

func TestParkedCopiesOfNoQueues(t *testing.T) {
	sys := systemtest.New(t, "WATERSHIP_AMQP_URL=amqp://127.0.0.1:1/") // which is not asked
	if parked, err := FindParkedCopies(t.Context(), sys, nil); err != nil || parked != nil {
		t.Errorf("%+v, %v", parked, err)
	}
}

func TestAQueueWithoutAParkingQueueHasNoParkedCopies(t *testing.T) {
	s, _ := newService(t)
	if parked, err := FindParkedCopies(t.Context(), s.System, []string{"orders"}); err != nil || len(parked) != 0 {
		t.Errorf("%+v, %v", parked, err)
	}
}
