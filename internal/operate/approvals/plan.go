package approvals

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/replayer"
)

// plan is the result of the dry run of an action, or of the plan of a replay.
type plan struct {
	Matched int                     `json:"matched"`
	UpTo    json.RawMessage         `json:"up_to"`
	Digest  json.RawMessage         `json:"digest"`
	Queues  map[string]int          `json:"queues"`
	Routes  []replays.PlanRoute     `json:"routes"`
	LeftOut map[replayer.Reason]int `json:"left_out"`

	Expect int `json:"-"` // the number that the caller expects; Matched if it expects none
}

// targets returns the names of queues and exchanges. Below the default exchange the routing key is the queue.
func (p plan) targets(of request) []string {
	names := slices.Collect(maps.Keys(p.Queues))
	for _, r := range p.Routes {
		names = append(names, cmp.Or(r.Queue, r.Exchange, r.RoutingKey))
	}
	if of.Queue != "" {
		names = append(names, of.Queue)
	}
	slices.Sort(names)
	return slices.Compact(append([]string{}, names...))
}

// matches reports whether a pattern matches a target, or may match one that the plan does not have.
func (p plan) matches(patterns []string, of request) bool {
	isCut := len(p.Routes) >= replays.MaxPlanRoutes || slices.ContainsFunc(p.Routes, func(r replays.PlanRoute) bool { return r.Others })
	return isCut || matches(patterns, p.targets(of))
}

// bounds returns the members of a request that keep it to the items of the plan.
func (p plan) bounds() map[string]json.RawMessage {
	bounds := map[string]json.RawMessage{}
	bounds["expect"], _ = json.Marshal(p.Expect)
	for name, value := range map[string]json.RawMessage{"up_to": p.UpTo, "digest": p.Digest} {
		if len(value) > 0 {
			bounds[name] = value
		}
	}
	return bounds
}

// bind bounds the input of an operation that is done at once, so that it does not grow above a rule after it was counted.
func (p plan) bind(in any) error {
	text, err := json.Marshal(request{Body: p.bounds()})
	if err == nil {
		err = json.Unmarshal(text, in)
	}
	if err != nil {
		return fmt.Errorf("bounding a request: %w", err)
	}
	return nil
}

// guarded returns the input of a request that changes what its plan has found, or nothing, and its values
// for those who decide.
func guarded(r request, found plan, key string) (input, values json.RawMessage, err error) {
	r.Body = maps.Clone(r.Body)
	maps.Copy(r.Body, found.bounds())
	shown := maps.Clone(r.Body)
	if r.Queue != "" {
		shown["queue"], _ = json.Marshal(r.Queue)
	}
	r.Key = key // a replay that is started again is the same
	if input, err = json.Marshal(r); err != nil {
		return nil, nil, fmt.Errorf("keeping a request: %w", err)
	}
	values, err = json.Marshal(shown)
	return input, values, err
}

// mayWait returns the problem of a request that would find others later.
func mayWait(r request, found plan) error {
	if beyond := found.LeftOut[replayer.BeyondLimit]; beyond > 0 {
		return problem.BadRequest(fmt.Sprintf("limit leaves out %s, and a replay that waits for an approval might send those instead", wording.Plural(beyond, "message")),
			"Give ids, or a narrower query without limit.")
	}
	return replays.CheckDSL(r.Body["dsl"])
}

// absolute returns a request whose times stay the same while it waits. One that cannot be read is
// returned as it is: its plan names the mistake.
func (s Service) absolute(r request) request {
	var f eventfilter.Filter
	text, err := json.Marshal(r.Body)
	if err != nil || json.Unmarshal(text, &f) != nil || f.Since != "" && f.From != "" {
		return r
	}
	zone, err := f.Location()
	if err != nil {
		return r
	}
	begin, end, err := f.Period(zone).Bounds()
	if err != nil {
		return r
	}
	r.Body = maps.Clone(r.Body)
	for name, at := range map[string]time.Time{"from": begin, "to": end} {
		if !at.IsZero() {
			r.Body[name], _ = json.Marshal(at.UTC().Format(kql.InstantLayout))
		}
	}
	delete(r.Body, "since")
	if !strings.Contains(f.Query, "now") {
		return r
	}
	node, err := s.System.ParseQueryIn(f.Text(), zone)
	if err != nil {
		return r
	}
	if fields, err := eventstore.Fields(); err == nil {
		r.Body["query"], _ = json.Marshal(kql.AbsoluteTimes(node, fields, time.Now()).String())
	}
	return r
}
