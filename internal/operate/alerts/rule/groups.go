package rule

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/storeread"
)

// groupRule finds groups of failures that are new, or that fail again after all of their
// failures were resolved. The alert of a group holds until its failures are resolved; while an
// operator has muted the group, none exists.
type groupRule struct {
	System
	query     kql.Node
	regressed bool
}

// groupMemory is the place up to which failures were read, and the groups with an alert.
type groupMemory struct {
	Sequence int64   `json:"sequence"`
	Groups   []group `json:"groups"`
}

type group struct {
	history.Kind
	First int64  `json:"first"` // sequence of the failure that made the alert
	Error string `json:"error,omitempty"`
}

// maxGroups bounds the groups with an alert. At the maximum, no new ones are read until some end.
const maxGroups = 1000

// maxFresh bounds the new groups of one evaluation, each of which takes some queries.
const maxFresh = 200

func (r groupRule) evaluate(ctx context.Context, memory json.RawMessage) ([]notice.Alert, json.RawMessage, error) {
	complete, err := eventstore.Complete(ctx, r.Store, r.Source)
	if err != nil {
		return nil, nil, err
	}
	known, err := r.Failures(ctx) // after a refresh, which shows all up to complete
	if err != nil {
		return nil, nil, err
	}
	states, err := failures.Read(ctx, r.Store, r.ofSource(kql.All{}), time.Now())
	if err != nil {
		return nil, nil, err
	}
	known.Resolved = states.Resolutions()
	m := groupMemory{Sequence: complete} // groups that exist at the first evaluation are not new
	if memory != nil {
		if err := json.Unmarshal(memory, &m); err != nil {
			return nil, nil, fmt.Errorf("its memory cannot be read: %w", err)
		}
	}
	if r.regressed {
		back, err := r.resolvedTooLate(ctx, known, states.ResolutionsAfter(m.Sequence), m.kinds())
		if err != nil {
			return nil, nil, err
		}
		m.Groups = append(m.Groups, back...)
	}
	fresh, err := r.read(ctx, known, &m, complete)
	if err != nil {
		return nil, nil, err
	}
	m.Groups = append(m.Groups, fresh...)
	if m.Groups, err = r.open(ctx, known, m.Groups); err != nil {
		return nil, nil, err
	}
	next, err := json.Marshal(m)
	found := []notice.Alert{}
	for _, g := range m.Groups {
		a := r.alert(g)
		a.Muted = muted(states.Of(g.Kind).Muted)
		found = append(found, a)
	}
	return found, next, err
}

// muted says by whom and until when a group is muted; "": it is not.
func muted(m *failures.Mute) string {
	if m == nil {
		return ""
	}
	text := "by " + m.By
	if m.Until != nil {
		text += " until " + m.Until.UTC().Format(time.RFC3339)
	}
	if m.Count > 0 {
		text += fmt.Sprintf(" up to %s", wording.Plural(m.Count, "further failure"))
	}
	return strings.TrimSuffix(text+": "+m.Reason, ": ")
}

// resolvedTooLate returns the groups that operators resolved since the latest evaluation and that
// failed again before its event. Such a failure was no regression when it came: a resolution is
// about the failures that the operator saw, and its event is later.
func (r groupRule) resolvedTooLate(ctx context.Context, known history.Failures, resolutions map[history.Kind]int64, seen map[history.Kind]bool) ([]group, error) {
	var found []group
	for kind, upTo := range resolutions {
		if seen[kind] {
			continue
		}
		query := r.ofSource(kql.And{r.query, kind.Query()})
		for failure, err := range known.OpenAfter(ctx, query, eventstore.Cursor{Sequence: upTo + 1}) {
			if err != nil {
				return nil, err
			}
			g := group{Kind: kind, First: failure.Sequence}
			if g.Error, err = r.errorOf(ctx, g); err != nil {
				return nil, err
			}
			found = append(found, g)
			break
		}
	}
	slices.SortFunc(found, func(a, b group) int { return cmp.Compare(a.First, b.First) })
	return found, nil
}

// kinds returns the groups with an alert.
func (m groupMemory) kinds() map[history.Kind]bool {
	kinds := map[history.Kind]bool{}
	for _, g := range m.Groups {
		kinds[g.Kind] = true
	}
	return kinds
}

// read reads the failures since the latest evaluation, and returns the groups among them that
// the rule is about.
func (r groupRule) read(ctx context.Context, known history.Failures, m *groupMemory, complete int64) ([]group, error) {
	if complete <= m.Sequence {
		return nil, nil
	}
	seen := m.kinds()
	var fresh []group
	selection := eventstore.Selection{
		Query: r.ofSource(kql.And{r.query, history.GivenUp()}), Order: eventstore.BySequence, After: eventstore.Cursor{Sequence: m.Sequence + 1}, UpTo: complete,
	}
	for failure, err := range r.Store.Summaries(ctx, selection) {
		if err != nil {
			return nil, err
		}
		if kind := history.KindOf(failure); !seen[kind] {
			if len(fresh) == maxFresh || len(seen) >= maxGroups { // a later evaluation goes on here
				complete = failure.Sequence - 1
				break
			}
			seen[kind] = true
			fresh = append(fresh, group{Kind: kind, First: failure.Sequence})
		}
	}
	after := m.Sequence
	m.Sequence, known.UpTo = complete, complete
	var found []group
	for _, g := range fresh {
		var err error
		if g.First, err = r.firstMeant(ctx, known, g, after); err != nil {
			return nil, err
		}
		if g.First == 0 {
			continue
		}
		if g.Error, err = r.errorOf(ctx, g); err != nil {
			return nil, err
		}
		found = append(found, g)
	}
	return found, nil
}

// firstMeant returns the sequence of the failure with which a group is new, or has regressed,
// after the latest evaluation; 0: with none.
func (r groupRule) firstMeant(ctx context.Context, known history.Failures, g group, after int64) (int64, error) {
	if r.regressed {
		return known.FirstBack(ctx, g.Kind, r.ofSource(g.Query()), after)
	}
	if isFirst, err := known.IsFirst(ctx, r.ofSource(g.Query()), g.First); err != nil || !isFirst {
		return 0, err
	}
	if isKnown, err := r.isKnown(ctx, g); err != nil || isKnown {
		return 0, err
	}
	return g.First, nil
}

// maxExamined bounds the failures that isKnown reads.
const maxExamined = 200

// isKnown reports whether there were failures of a group before that another version of Watership
// gave another group: they are not new because of that.
func (r groupRule) isKnown(ctx context.Context, g group) (bool, error) {
	var former history.Kind
	one := eventstore.Selection{
		Query: r.ofSource(g.Query()), Order: eventstore.BySequence, After: eventstore.Cursor{Sequence: g.First}, UpTo: g.First, Limit: 1, WithoutBody: true,
	}
	for failure, err := range storeread.Readable(r.Store.Events(ctx, one)) {
		if err != nil {
			return false, err
		}
		former = g.Kind
		former.Group = failure.Failure.FormerErrorGroup(failure.Queue, failure.Envelope.Exchange)
	}
	if former.Queue == "" || former == g.Kind {
		return false, nil
	}
	before := eventstore.Selection{Query: r.ofSource(kql.And{former.Query(), history.UpTo(g.First - 1)}), Limit: maxExamined, WithoutBody: true}
	for failure, err := range storeread.Readable(r.Store.Events(ctx, before)) {
		if err != nil {
			return false, err
		}
		if failure.Failure.Group = ""; failure.ErrorGroup() == g.Group {
			return true, nil
		}
	}
	return false, nil
}

// hasAny reports whether a sequence has an element.
func hasAny(list func(yield func(eventstore.EventSummary, error) bool)) (found bool, err error) {
	for _, err := range list {
		return err == nil, err
	}
	return false, nil
}

// open returns the groups that have unresolved failures.
func (r groupRule) open(ctx context.Context, known history.Failures, groups []group) ([]group, error) {
	var open []group
	for _, g := range groups {
		isOpen, err := hasAny(known.OpenAfter(ctx, r.ofSource(g.Query()), eventstore.Cursor{Sequence: g.First}))
		if err != nil {
			return nil, err
		}
		if isOpen {
			open = append(open, g)
		}
	}
	return open, nil
}

// errorOf returns the error text of the failure that made the alert of a group.
func (r groupRule) errorOf(ctx context.Context, g group) (string, error) {
	selection := eventstore.Selection{
		Query: r.ofSource(g.Query()), Order: eventstore.BySequence, After: eventstore.Cursor{Sequence: g.First}, UpTo: g.First, Limit: 1, WithoutBody: true,
	}
	for event, err := range storeread.Readable(r.Store.Events(ctx, selection)) {
		return firstRunes(event.Failure.Message, maxText), err
	}
	return "", nil
}

func (r groupRule) alert(g group) notice.Alert {
	what := "new failures in queue "
	if r.regressed {
		what = "failures again, after all were resolved, in queue "
	}
	labels := map[string]string{"queue": g.Queue, "class": g.Class, "error_type": g.Type, "error_group": g.Group}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	return notice.Alert{
		Labels:  labels,
		Summary: what + g.Queue + ": " + cmp.Or(firstRunes(g.Error, maxSummary), g.Type, g.Class, "no error text"),
		Detail:  g.Error, Page: "/failures/groups/" + g.ID(),
	}
}

// Bounds of texts, in characters.
const (
	maxSummary = 200
	maxText    = 1000
)

func firstRunes(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n]) + "…"
	}
	return text
}
