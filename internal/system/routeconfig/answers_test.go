package routeconfig

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/pipeline/webhook"
)

// Rules with conditions decide before statuses, and statuses before their classes.
func TestAnswersInOrder(t *testing.T) {
	got := answers(config.HTTPHandler{
		Answers: []config.HTTPAnswer{
			{Header: "X-Late", HTTPOutcome: config.HTTPOutcome{Class: "late"}},
			{Status: "200", Field: "/ok", Value: "false", HTTPOutcome: config.HTTPOutcome{Means: "poison"}},
		},
		Statuses: map[string]config.HTTPOutcome{"4xx": {Means: "retry"}, "499": {Means: "poison"}, "5xx": {Class: "slow"}, "500": {Means: "handled", Class: "odd"}},
	})
	want := []webhook.Answer{
		{Header: "X-Late", Class: "late"},
		{Status: "200", Field: "/ok", Value: "false", Means: webhook.Poison},
		{Status: "500", Means: webhook.Handled, Class: "odd"},
		{Status: "499", Means: webhook.Poison},
	}
	if diff := cmp.Diff(want, got[:min(4, len(got))]); diff != "" {
		t.Error(diff)
	}
	if len(got) != 6 || got[4].Status[1:] != "xx" || got[5].Status[1:] != "xx" {
		t.Errorf("the last are %+v", got[min(4, len(got)):])
	}
}
