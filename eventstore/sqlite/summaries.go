package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// summaryColumns are the fields of a eventstore.EventSummary, in the order of scanSummary. The indexes of
// failures.sql have all of them.
const summaryColumns = `"event.id", "event.sequence", "@timestamp",
	coalesce("watership.quarantined_action", "event.action", ''), coalesce("watership.fingerprint", ''),
	coalesce("messaging.message.id", ''), coalesce("watership.message", ''), coalesce("watership.queue", ''),
	coalesce("watership.class", ''), coalesce("error.type", ''), coalesce("watership.error_group", ''),
	coalesce("watership.replay.job", ''), coalesce("watership.replay.of", ''), coalesce("watership.stream.id", ''),
	"watership.stream.version"`

// Statements that read the summaries of a list of places: from the table, and of failures from their index.
const (
	selectSummaries = `SELECT ` + summaryColumns + ` FROM json_each(?) AS list CROSS JOIN event ON event.n = list.value ->> 1`
	selectGivenUp   = `SELECT ` + summaryColumns + ` FROM json_each(?) AS list CROSS JOIN event INDEXED BY "event given up"
		ON event."event.sequence" = list.value ->> 0 AND +event.n = list.value ->> 1
		WHERE "event.action" = 'poisoned' OR "watership.quarantined_action" = 'poisoned'`
)

// selectAllGivenUp reads the summaries of the next failures after a cursor from their index, up to a sequence and an n.
const selectAllGivenUp = `SELECT ` + summaryColumns + ` FROM event INDEXED BY "event given up"
	WHERE ("event.action" = 'poisoned' OR "watership.quarantined_action" = 'poisoned')
		AND ("event.sequence", "event.id") > (?, ?) AND "event.sequence" <= ? AND +event.n <= ? ORDER BY "event.sequence", "event.id" LIMIT ?`

// place is an event by its sequence and n.
type place [2]int64

const (
	// maxSummariesAtOnce is the number of events that one statement reads. The first reads one,
	// for callers that stop early.
	maxSummariesAtOnce = 512

	// maxLookedUp is the number of events with some values that are read at once, for which few events
	// are looked up as a rule.
	maxLookedUp = 20_000
)

const readingSummaries = "reading summaries of events"

// Summaries reads the selected events in the order BySequence, without their documents:
// those with one of the values in one of the fields, or all without such filters. Like
// Events it reads from a snapshot.
func (r *reader) Summaries(ctx context.Context, sel eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error] {
	sel.Order = eventstore.BySequence
	return func(yield func(eventstore.EventSummary, error) bool) {
		found, whole, err := r.lookUp(ctx, sel, either)
		if whole || err != nil {
			yieldSummaries(found, r.storeError(readingSummaries, err), yield)
			return
		}
		if len(either) == 0 && isAllGivenUp(sel.Query) {
			r.allGivenUp(ctx, sel)(yield)
			return
		}
		places, err := r.selectPlaces(ctx, sel, either)
		if err != nil {
			yield(eventstore.EventSummary{}, r.storeError(readingSummaries, err))
			return
		}
		statement := selectSummaries
		if isOfGivenUp(sel.Query) {
			statement = selectGivenUp
		}
		for count := 1; len(places) > 0; count = min(2*count, maxSummariesAtOnce) {
			some := places[:min(count, len(places))]
			places = places[len(some):]
			list, _ := json.Marshal(some) // numbers always marshal
			summaries, err := r.querySummaries(ctx, statement, string(list))
			if !yieldSummaries(summaries, r.storeError(readingSummaries, err), yield) {
				return
			}
		}
	}
}

// yieldSummaries returns false after an error, and when the consumer of the sequence stops.
func yieldSummaries(summaries []eventstore.EventSummary, err error, yield func(eventstore.EventSummary, error) bool) bool {
	for _, summary := range summaries {
		if !yield(summary, nil) {
			return false
		}
	}
	if err != nil {
		yield(eventstore.EventSummary{}, err)
	}
	return err == nil
}

// lookUp reads the events with one of the values in one of the fields. whole is false if that is not
// asked for, and if they are too many to be read at once.
func (r *reader) lookUp(ctx context.Context, sel eventstore.Selection, either []eventstore.FieldIn) (found []eventstore.EventSummary, whole bool, err error) {
	if len(either) == 0 || sel.Limit > maxLookedUp {
		return nil, false, nil
	}
	statement, args, err := r.lookUpSQL(sel, either)
	if err != nil || len(args) > maxArguments {
		return nil, false, err
	}
	found, err = r.querySummaries(ctx, statement, args...)
	found = slices.CompactFunc(found, func(a, b eventstore.EventSummary) bool { return a.Sequence == b.Sequence && a.EventID == b.EventID })
	if sel.Limit > 0 {
		return found[:min(sel.Limit, len(found))], true, err
	}
	return found, len(found) <= maxLookedUp, err
}

// lookUpSQL finds the events of each field by the index of the field, which has mostly all columns. An event that two
// fields find comes twice.
func (r *reader) lookUpSQL(sel eventstore.Selection, either []eventstore.FieldIn) (statement string, args []any, err error) {
	filter, err := r.filter(readingSummaries, sel)
	if err != nil {
		return "", nil, err
	}
	parts := make([]string, len(either))
	for i, of := range either {
		from, found := r.layout.fromIndex(of)
		part := allOf([]condition{found, filter})
		parts[i] = "SELECT " + summaryColumns + " FROM " + from.sql + " WHERE " + part.sql
		args = slices.Concat(args, from.args, part.args)
	}
	most := maxLookedUp
	if sel.Limit > 0 {
		most = sel.Limit
	}
	return strings.Join(parts, " UNION ALL ") + " ORDER BY 2, 1 LIMIT ?", append(args, len(either)*most+1), nil
}

// fromIndex returns the tables in which the events with one of the values of a field are, and what these have to meet: the list
// of the values comes first, so that each is one look into the index of the field.
func (l layout) fromIndex(of eventstore.FieldIn) (from, found condition) {
	field, _ := l.fields.Lookup(of.Field)
	column := l.locate(field).column
	if column == "" {
		return where("event"), l.hasOne(of)
	}
	equal := "event." + quoteName(column) + " = list.value"
	if hasEndIndex(column) {
		equal += " AND substr(event." + quoteName(column) + ", -16) = substr(list.value, -16)"
	}
	values := slices.Compact(slices.Sorted(slices.Values(of.Values)))
	return where("json_each(?) AS list CROSS JOIN event ON "+equal, jsonList(append([]string{}, values...))), where("TRUE")
}

// selectPlaces is selectNumbers for summaries. They take 16 bytes an event.
func (r *reader) selectPlaces(ctx context.Context, sel eventstore.Selection, either []eventstore.FieldIn) (places []place, err error) {
	filter, err := r.filter(readingSummaries, sel)
	if err != nil {
		return nil, err
	}
	filter = allOf(append(r.anyFilter(either), filter))
	statement := `SELECT "event.sequence", event.n FROM event WHERE ` + filter.sql + " ORDER BY " + orderBy(eventstore.BySequence)
	if sel.Limit > 0 {
		statement += " LIMIT ?"
		filter.args = append(filter.args, sel.Limit)
	}
	rows, err := r.readers.QueryContext(ctx, statement, filter.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var at place
		if err := rows.Scan(&at[0], &at[1]); err != nil {
			return nil, err
		}
		places = append(places, at)
	}
	return places, rows.Err()
}

// allGivenUp reads all failures of a selection, which are in their order in an index, page by page: looking each up by its
// place takes twice as long. Later ones have a higher n.
func (r *reader) allGivenUp(ctx context.Context, sel eventstore.Selection) iter.Seq2[eventstore.EventSummary, error] {
	after, upTo, left := sel.After, sel.UpTo, sel.Limit
	if after == (eventstore.Cursor{}) {
		after.Sequence = math.MinInt64
	}
	if upTo == 0 {
		upTo = math.MaxInt64
	}
	if left == 0 {
		left = math.MaxInt
	}
	return func(yield func(eventstore.EventSummary, error) bool) {
		var newest int64
		err := r.readers.QueryRowContext(ctx, "SELECT coalesce(max(n), 0) FROM event").Scan(&newest)
		for count := 1; ; count = min(2*count, maxSummariesAtOnce) {
			var page []eventstore.EventSummary
			count = min(count, left)
			if err == nil {
				page, err = r.querySummaries(ctx, selectAllGivenUp, after.Sequence, after.EventID, upTo, newest, count)
			}
			if !yieldSummaries(page, r.storeError(readingSummaries, err), yield) || len(page) < count {
				return
			}
			if left -= count; left == 0 {
				return
			}
			last := page[len(page)-1]
			after = eventstore.Cursor{Sequence: last.Sequence, EventID: last.EventID}
		}
	}
}

// isAllGivenUp reports whether a query selects all failures, without another condition.
func isAllGivenUp(node kql.Node) bool {
	and, is := node.(kql.And)
	if !is {
		return isOfGivenUp(node)
	}
	conditions := slices.DeleteFunc(slices.Clone(and), isEvery)
	return len(conditions) == 1 && isAllGivenUp(conditions[0])
}

// isEvery reports whether a query selects all events.
func isEvery(node kql.Node) bool {
	if and, is := node.(kql.And); is {
		return !slices.ContainsFunc(and, func(part kql.Node) bool { return !isEvery(part) })
	}
	return node == nil || node == kql.Node(kql.All{})
}

// isOfGivenUp reports whether a query has the condition of the index "event given up".
func isOfGivenUp(node kql.Node) bool {
	switch n := node.(type) {
	case kql.And:
		return slices.ContainsFunc(n, isOfGivenUp)
	case kql.Or:
		const poisoned = string(schemas.Poisoned)
		return n.String() == kql.Or{kql.FieldIs("event.action", poisoned), kql.FieldIs("watership.quarantined_action", poisoned)}.String()
	}
	return false
}

// querySummaries leaves out the events that Retain has removed.
func (r *reader) querySummaries(ctx context.Context, statement string, args ...any) (summaries []eventstore.EventSummary, err error) {
	rows, err := r.readers.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		summary, err := scanSummary(rows)
		if err != nil {
			return summaries, err
		}
		summaries = append(summaries, summary)
	}
	return summaries, rows.Err()
}

func (r *reader) anyFilter(either []eventstore.FieldIn) []condition {
	if len(either) == 0 {
		return nil
	}
	conditions := make([]condition, len(either))
	for i, of := range either {
		conditions[i] = r.layout.hasOne(of)
	}
	return []condition{unionOf(conditions)}
}

// hasOne is true of the events with one of the values of a field.
func (l layout) hasOne(of eventstore.FieldIn) condition {
	field, _ := l.fields.Lookup(of.Field)
	return l.hasValue(l.locate(field), oneOf(of.Values))
}

func scanSummary(row *sql.Rows) (e eventstore.EventSummary, err error) {
	var millis int64
	var version sql.NullInt64
	err = row.Scan(&e.EventID, &e.Sequence, &millis, (*string)(&e.Action), &e.Fingerprint, &e.MessageID, &e.Message, &e.Queue,
		&e.Class, &e.ErrorType, &e.ErrorGroup, &e.Replay, &e.ReplayOf, &e.Stream.ID, &version)
	e.Stream.Version, e.Stream.HasVersion = version.Int64, version.Valid
	e.Time = time.UnixMilli(millis).UTC()
	return e, err
}
