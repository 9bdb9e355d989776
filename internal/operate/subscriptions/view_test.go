package subscriptions

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/subscription"
)

// viewedAt is the time of the views.
func viewedAt() time.Time { return time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC) }

func TestTargetsInWords(t *testing.T) {
	for want, target := range map[string]SubscriptionTarget{
		"queue q": {Kind: "queue", Queue: "q"}, "https://x": {Kind: "url", URL: "https://x"}, "a handler in Go": {Kind: "handler"},
	} {
		if got := target.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTheBacklogOfAView(t *testing.T) {
	for backlog, want := range map[int]int{0: subscription.DefaultMaxBacklog, -1: 0, 7: 7} {
		sub := subscription.Subscription{Target: subscription.Target{Kind: subscription.ToQueue, Queue: "q", MaxBacklog: backlog}}
		if got := viewOf(sub, subscription.Progress{}, viewedAt()).Target.MaxBacklog; got != want {
			t.Errorf("%d is shown as %d, want %d", backlog, got, want)
		}
	}
}

func TestTheDelaysOfAView(t *testing.T) {
	sub := subscription.Subscription{Policy: &retry.Policy{Delays: []time.Duration{time.Second, 90 * time.Minute}}}
	if diff := cmp.Diff([]string{"1 s", "1h 30m"}, viewOf(sub, subscription.Progress{}, viewedAt()).Delays); diff != "" {
		t.Error(diff)
	}
}

func TestAViewOfASubscriptionThatNoProcessRuns(t *testing.T) {
	now, long := viewedAt(), viewedAt().Add(-time.Hour)
	for name, test := range map[string]struct {
		state      subscription.State
		checkpoint time.Time
		want       bool
	}{
		"runs":       {subscription.Active, now, false},
		"unattended": {subscription.Active, long, true},
		"paused":     {subscription.Paused, long, false},
		"stopped":    {subscription.Stopped, long, false},
	} {
		sub := subscription.Subscription{State: test.state, Created: long, Changed: long}
		sub.Checkpoint.Time = test.checkpoint
		v := viewOf(sub, subscription.Progress{}, now)
		if v.Unattended != test.want || (v.Waiting == subscription.Unattended) != test.want {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestAViewHasOnlyTimesThatThereAre(t *testing.T) {
	if v := viewOf(subscription.Subscription{}, subscription.Progress{}, viewedAt()); v.Changed != nil || v.Checkpoint != nil || v.RemovedTo != "" {
		t.Errorf("%+v", v)
	}
	sub := subscription.Subscription{Changed: viewedAt(), RemovedUpTo: 5}
	sub.Checkpoint.Time = viewedAt()
	if v := viewOf(sub, subscription.Progress{}, viewedAt()); v.Changed == nil || v.Checkpoint == nil || v.RemovedTo == "" {
		t.Errorf("%+v", v)
	}
}

func TestTheProgressOfAView(t *testing.T) {
	v := viewOf(subscription.Subscription{}, subscription.Progress{CaughtUp: true, Lag: 90 * time.Second}, viewedAt())
	if !v.CaughtUp || v.LagSeconds != 90 {
		t.Errorf("%+v", v)
	}
}

func TestTheReasonOfAViewHasACode(t *testing.T) {
	for want, sub := range map[Reason]subscription.Subscription{
		"":             {State: subscription.Active},
		ByOperator:     {State: subscription.Paused, Reason: "maintenance"},
		EventsRemoved:  {State: subscription.Stopped, Reason: "events were removed", RemovedUpTo: 7},
		MessageRefused: {State: subscription.Stopped, Reason: "the target answered 400"},
	} {
		if got := viewOf(sub, subscription.Progress{}, viewedAt()); got.ReasonCode != want || got.Reason != sub.Reason {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

// The API lists each cause, and each has words, or is said by the error that comes with it.
func TestCausesOfSubscriptions(t *testing.T) {
	listed := map[subscription.Cause]bool{}
	for of, name := range map[reflect.Type]string{reflect.TypeFor[Subscription](): "Waiting", reflect.TypeFor[ParkedMessage](): "Cause"} {
		field, _ := of.FieldByName(name)
		for cause := range strings.SplitSeq(field.Tag.Get("enum"), ",") {
			listed[subscription.Cause(cause)] = true
		}
	}
	source, err := parser.ParseFile(token.NewFileSet(), "../../../subscription/cause.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(source, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || len(spec.Values) == 0 { // a variable
			return true
		}
		declared++
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		cause := subscription.Cause(text)
		if err != nil || !listed[cause] {
			t.Errorf("the API does not list the cause %s", cause)
		}
		if withError := cause.Text("no"); cause.Text("") == text && withError != "no" {
			t.Errorf("%s has no words, and hides its error: %s", cause, withError)
		}
		return true
	})
	if declared != len(listed) {
		t.Errorf("%d causes are declared, and %d are listed", declared, len(listed))
	}
}
