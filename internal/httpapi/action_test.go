package httpapi_test

import (
	"encoding/json"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// fewerBounds are the operations that change something without all of dry_run, expect and reason: those that they
// have, and why no more.
func fewerBounds() map[string]struct{ has, why string } {
	return map[string]struct{ has, why string }{
		"startReplay":           {"expect reason", "planReplay is its dry run"},
		"planReplay":            {"expect reason", "it is the dry run of startReplay"},
		"startAdoption":         {"expect reason", "previewAdoption is its dry run"},
		"previewAdoption":       {"expect reason", "it is the dry run of startAdoption"},
		"cancelReplay":          {"reason", "it is about one job"},
		"resumeReplay":          {"expect", "it is about one job, whose reason is recorded"},
		"cancelAdoption":        {"", "it is about one adoption"},
		"triageFailureGroup":    {"reason", "it is about one group, and can be undone"},
		"decideApproval":        {"reason", "it is about one approval"},
		"publishMessage":        {"", "it adds a message"},
		"publishMessages":       {"", "it adds messages"},
		"saveSearch":            {"", "it is about one saved search"},
		"renameSearch":          {"", "it is about one saved search"},
		"deleteSearch":          {"", "it is about one saved search"},
		"createSubscription":    {"", "it is about one subscription"},
		"configureSubscription": {"", "it is about one subscription"},
		"deleteSubscription":    {"reason", "it is about one subscription"},
		"pauseSubscription":     {"reason", "it is about one subscription"},
		"resumeSubscription":    {"", "it is about one subscription"},
		"rewindSubscription":    {"", "it is about one subscription"},
		"skipRemoved":           {"", "it is about one subscription"},
		"retryParked":           {"", "it names positions"},
		"dropParked":            {"", "it names positions"},
		"findSubject":           {"", "it changes nothing"},
		"validateBody":          {"", "it changes nothing"},
		"reload":                {"", "it reads a file"},
		"testAlerts":            {"", "it sends a text to receivers"},
	}
}

// Each operation that finds and changes many has one dry run, one guard of the number and a reason, or says why not.
func TestActionsHaveTheSameBounds(t *testing.T) {
	content, err := os.ReadFile(openapi)
	if err != nil {
		t.Fatal(err)
	}
	type schema struct {
		Ref        string         `json:"$ref"`
		Properties map[string]any `json:"properties"`
	}
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			RequestBody struct {
				Content map[string]struct{ Schema schema }
			}
		}
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(content, &document); err != nil {
		t.Fatal(err)
	}
	fewer, actions := fewerBounds(), 0
	for _, methods := range document.Paths {
		for method, op := range methods {
			if method == "get" {
				continue
			}
			body := op.RequestBody.Content["application/json"].Schema
			if body.Ref != "" {
				body = document.Components.Schemas[path.Base(body.Ref)]
			}
			bounds := []string{"dry_run", "expect", "reason"}
			has := strings.Join(slices.DeleteFunc(slices.Clone(bounds), func(name string) bool { return body.Properties[name] == nil }), " ")
			listed, isListed := fewer[op.OperationID]
			switch all := strings.Join(bounds, " "); {
			case isListed && has != listed.has:
				t.Errorf("%s has the members %q, and is listed with %q", op.OperationID, has, listed.has)
			case !isListed && has != all:
				t.Errorf("%s has the members %q of %q: let its request have operation.Bounds, or list it with the reason", op.OperationID, has, all)
			case !isListed:
				actions++
			}
			delete(fewer, op.OperationID)
		}
	}
	for id := range fewer {
		t.Errorf("there is no operation %s, which is listed", id)
	}
	if actions < 8 {
		t.Errorf("%d operations have all of them", actions)
	}
}
