package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/ThreeDotsLabs/watermill"

	"github.com/watershipmq/watership/internal/lasthop"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/pipeline/amqp"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas/query"
)

// replayer makes one that can run jobs. What it gives beside is to be called in
// the end. r may be nil where nothing is planned.
func (s system) replayer(ctx context.Context, r *replay) (*replayer.Replayer, func() error, error) {
	if r != nil && s.away != nil {
		return nil, nil, s.away
	}
	store, err := s.store(ctx)
	if err != nil {
		return nil, nil, err
	}
	cfg := replayer.Config{
		Store: store, Jobs: store, Topology: s.topology, Login: s.login, NewID: watermill.NewULID, Hop: s.hop,
		Broker: rabbit.Config{URL: s.cfg.AMQP.URL.Reveal(), Name: "watership replay", Logger: s.logger},
	}
	if r == nil || r.uncheckedRoutes {
		return replayer.New(cfg), store.Close, nil
	}
	conn, err := s.connect("replay routes", false)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	closing := func() error { return errors.Join(conn.Close(), store.Close()) }
	if cfg.Routes, err = s.routes(ctx, conn, r.target()); err != nil {
		return nil, nil, errors.Join(err, closing())
	}
	return replayer.New(cfg), closing, nil
}

func (s system) hop(conn *rabbit.Connection, publisher *rabbit.Publisher) replayer.Hop {
	hop := lasthop.Hop{
		Topology: s.topology, Publisher: publisher, Login: s.login, Own: map[string]bool{},
		Binder: amqp.LiveTopology{Conn: conn, Config: s.pipeline().TopologyConfig()},
	}
	for _, route := range s.cfg.Routes {
		hop.Own[route.Queue] = true
	}
	return hop
}

// routes asks the broker where messages go. For exchanges that takes the
// management API.
func (s system) routes(ctx context.Context, conn *rabbit.Connection, target replayer.Target) (replayer.Routes, error) {
	management, err := s.managementAPI()
	if err != nil {
		return nil, err
	}
	if target.Kind == replayer.ToOrigin || target.Kind == replayer.ToExchange {
		ctx, cancel := bounded(ctx)
		defer cancel()
		if _, err := management.WhoAmI(ctx); err != nil {
			return nil, fmt.Errorf("whether the routes lead to a queue cannot be checked (%w): "+
				"set amqp.management_url (now %s), or go on with --unchecked-routes", err, s.cfg.AMQP.ManagementURL)
		}
	}
	return rabbit.NewRoutes(management, conn, s.vhost, s.topology), nil
}

// selected is the query for all that the command line selects by.
func (s system) selected(r replay) (query.Node, error) {
	var all query.And
	if r.ids != "" {
		names, err := r.readIDs()
		if err != nil {
			return nil, err
		}
		all = append(all, replayer.Of(names))
	}
	if r.group != "" {
		all = append(all, is("watership.error_group", r.group))
	}
	if r.query != "" || len(all) == 0 {
		node, err := s.parseQuery(r.query)
		if err != nil {
			return nil, err
		}
		all = append(all, node)
	}
	var node query.Node = all
	if len(all) == 1 {
		node = all[0]
	}
	return r.period.limit(node)
}

// relativeTime is date math from now on
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/common-options.html#date-math).
const relativeTime = `"now(["+/-]|\|\|)`

// readDSL refuses what would find something else when the job is resumed.
func (r *replay) readDSL() (json.RawMessage, error) {
	if r.dsl == "" {
		return nil, nil
	}
	raw, err := readDSL(r.dsl, r.in)
	if err != nil {
		return nil, err
	}
	if found := regexp.MustCompile(relativeTime).FindString(raw.JSON); found != "" {
		return nil, usagef("--dsl %s: a job that is resumed must find the same again, and %s is another time then: write the time itself", r.dsl, found)
	}
	return json.RawMessage(raw.JSON), nil
}

// mostIDs fit into one query.
const mostIDs = 10000

func (r *replay) readIDs() ([]string, error) {
	var text []byte
	var err error
	if r.ids == "-" {
		text, err = io.ReadAll(r.in)
	} else {
		text, err = os.ReadFile(r.ids)
	}
	if err != nil {
		return nil, fmt.Errorf("reading ids: %w", err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		if name := strings.TrimSpace(line); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	switch {
	case len(names) == 0:
		return nil, usagef("--ids %s: expected ids, one a line, and there are none", r.ids)
	case len(names) > mostIDs:
		return nil, usagef("--ids %s: %d ids, at most %d are possible at once: use a query, or several replays", r.ids, len(names), mostIDs)
	}
	return names, nil
}

// carryOut runs a new job, the canaries first.
func (r *replay) carryOut(ctx context.Context, replays *replayer.Replayer, job replayer.Job) error {
	if r.canary > 0 && r.canary < job.Total {
		ran, err := r.run(ctx, replays, job, r.canary)
		if err != nil || ran.State != replayer.Paused {
			return r.report(ran, err)
		}
		if err := r.observe(ctx, replays, ran); err != nil {
			return err
		}
		job = ran
	}
	return r.report(r.run(ctx, replays, job, 0))
}

// run runs a job on, with a progress bar, and names on the way what could not be sent.
func (t terminal) run(ctx context.Context, replays *replayer.Replayer, job replayer.Job, stopAfter int) (replayer.Job, error) {
	bar := newBar(t.err, job.Total)
	bar.from = job.Sent + job.Failed + job.Skipped
	failed := job.Failed
	ran, err := replays.Run(ctx, job.ID, replayer.RunOptions{StopAfter: stopAfter, Progress: func(now replayer.Job) {
		if now.Failed > failed {
			bar.end()
			fmt.Fprintf(t.err, "not sent: %s\n", failureText(now.Latest))
			failed = now.Failed
		}
		bar.show(now.Sent + now.Failed + now.Skipped)
	}})
	bar.end()
	if ran.ID == "" {
		ran = job
	}
	return ran, err
}

func failureText(f replayer.Failure) string {
	if f.Message != "" {
		return fmt.Sprintf("message %s, event %s: %s", cell(f.Message, 80), f.EventID, f.Reason)
	}
	return fmt.Sprintf("event %s: %s", f.EventID, f.Reason)
}

// report says how a run ended.
func (t terminal) report(job replayer.Job, err error) error {
	fmt.Fprintf(t.out, "sent %d of %d, job %s\n", job.Sent, job.Total, job.ID)
	if job.Skipped > 0 {
		fmt.Fprintf(t.err, "%s left out: other jobs replayed them meanwhile\n", plural(job.Skipped, "message"))
	}
	if err != nil && !job.Finished() {
		// Not in the error: one that is an interruption is not printed.
		fmt.Fprintf(t.err, "go on with: watership jobs resume %s\n", job.ID)
	}
	switch {
	case err != nil:
		return err
	case job.Failed > 0:
		return fmt.Errorf("%s could not be sent: see watership jobs show %s", plural(job.Failed, "message"), job.ID)
	}
	return nil
}
