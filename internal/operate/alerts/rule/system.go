package rule

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/render/wording"
)

// evaluatePaused finds routes that are paused, by an outage or by an operator.
func (s System) evaluatePaused(ctx context.Context, _ json.RawMessage) ([]notice.Alert, json.RawMessage, error) {
	states, err := s.Routes(ctx)
	if err != nil {
		return nil, nil, err
	}
	var found []notice.Alert
	for _, route := range states {
		if route.State != "paused" {
			continue
		}
		by := "since its messages fail"
		switch {
		case route.ByHand:
			by = "by an operator"
		case route.WithAll:
			by = "with all routes, by an operator"
		}
		a := notice.Alert{
			Labels: map[string]string{"queue": route.Queue}, Summary: "the route of queue " + route.Queue + " is paused " + by,
			Detail: firstRunes(route.Error, maxText), Page: "/routes",
		}
		if route.Since != nil {
			a.Detail = strings.TrimPrefix(a.Detail+", since "+route.Since.UTC().Format(time.RFC3339), ", ")
		}
		found = append(found, a)
	}
	return found, nil, nil
}

// evaluateDoctor finds the errors of doctor; the errors of a check are one alert.
func (s System) evaluateDoctor(ctx context.Context, _ json.RawMessage) ([]notice.Alert, json.RawMessage, error) {
	findings := s.Diagnose(ctx)
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx) // findings tell of that
	}
	errors := map[string][]doctor.Finding{}
	for _, f := range findings {
		if f.Verdict == doctor.Error {
			errors[string(f.Check)] = append(errors[string(f.Check)], f)
		}
	}
	var found []notice.Alert
	for _, check := range slices.Sorted(maps.Keys(errors)) {
		list := errors[check]
		var details []string
		for _, f := range list {
			detail := wording.OneLine(f.Detail)
			if remedy := f.Instruction(); remedy != "" {
				detail += " (" + wording.OneLine(remedy) + ")"
			}
			details = append(details, detail)
		}
		found = append(found, notice.Alert{
			Labels: map[string]string{"check": check}, Summary: "doctor: " + check + ": " + firstRunes(wording.OneLine(list[0].Detail), maxSummary),
			Detail: firstRunes(strings.Join(details, "; "), maxText), Page: "/doctor",
		})
	}
	return found, nil, nil
}
