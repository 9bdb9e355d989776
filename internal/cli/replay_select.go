package cli

import (
	"encoding/json"
	"regexp"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/replayer"
)

// job makes a job from the flags.
func (r *replay) job(a *app.App) (replayer.Job, error) {
	job := replayer.Job{
		Limit: r.limit, Rate: r.rate, Again: r.again, Changes: r.changes, Reason: r.reason,
		Operator: r.operator, Target: r.target(),
	}
	if job.Operator == "" {
		job.Operator = operator()
	}
	node, err := r.selected(a)
	if err != nil {
		return job, err
	}
	fields, err := eventstore.Fields()
	if err != nil {
		return job, err
	}
	job.Query = kql.AbsoluteTimes(node, fields, time.Now()).String()
	job.DSL, err = r.readDSL()
	return job, err
}

func (r *replay) target() replayer.Target {
	switch {
	case r.toFailedQueue:
		return replayer.Target{Kind: replayer.ToFailedQueue}
	case r.toQueue != "":
		return replayer.Target{Kind: replayer.ToQueue, Queue: r.toQueue}
	case r.toExchange != "" && r.keyGiven:
		return replayer.Target{Kind: replayer.ToExchange, Exchange: r.toExchange, Key: &r.key}
	case r.toExchange != "":
		return replayer.Target{Kind: replayer.ToExchange, Exchange: r.toExchange}
	}
	return replayer.Target{Kind: replayer.ToOrigin}
}

// selected returns the query for all that the command line selects by.
func (r *replay) selected(a *app.App) (kql.Node, error) {
	var all kql.And
	if r.ids != "" {
		all = append(all, replayer.ByName(r.names))
	}
	if r.group != "" {
		// Attempts that failed in the same way may have been followed by one that did not.
		all = append(all, history.GivenUp(), is("watership.error_group", r.group))
	}
	if r.query != "" || len(all) == 0 {
		node, err := a.ParseQuery(r.query)
		if err != nil {
			return nil, err
		}
		all = append(all, node)
	}
	var node kql.Node = all
	if len(all) == 1 {
		node = all[0]
	}
	return r.period.Limit(node)
}

// relativeTime is date math from now on
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/common-options.html#date-math).
const relativeTime = `"now(["+/-]|\|\|)`

// readDSL reads the query of --dsl. It refuses relative times, which would find other
// events when the job is resumed.
func (r *replay) readDSL() (json.RawMessage, error) {
	if r.dsl == "" {
		return nil, nil
	}
	raw, err := readDSL(r.dsl, r.In)
	if err != nil {
		return nil, err
	}
	if found := regexp.MustCompile(relativeTime).FindString(raw.JSON); found != "" {
		return nil, usagef("--dsl %s: a job that is resumed must find the same again, and %s is another time then: write the time itself", r.dsl, found)
	}
	return json.RawMessage(raw.JSON), nil
}

// mostIDs is the most ids that fit into one query.
const mostIDs = 10000

func (r *replay) readIDs() (err error) {
	if r.ids == "" {
		return nil
	}
	if r.names, err = idsIn(r.ids, r.In); len(r.names) > mostIDs {
		return usagef("--ids %s: %d ids, at most %d are possible at once: use a query, or several replays", r.ids, len(r.names), mostIDs)
	}
	return err
}
