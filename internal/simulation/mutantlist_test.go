package simulation

// mutants returns faults that somebody could make.
func mutants() []mutant {
	return []mutant{
		{
			"a message is acknowledged before its retry is confirmed",
			[]edit{
				{
					"pipeline/message_flow.go",
					`		err := f.publishDelayed(ctx, e, state, delay)
`,
					`		var err error
		go func() { _ = f.publishDelayed(context.WithoutCancel(ctx), e, state, delay) }()
`,
				},
			},
		},
		{
			"a replay passes a message before it is confirmed",
			[]edit{
				{
					"replayer/confirm.go",
					`		m.err = m.pending.Wait(run.confirming)
`,
					`		_ = m.pending
`,
				},
			},
		},
		{
			"documents that a busy store did not accept are taken for stored",
			[]edit{
				{
					"indexer/write.go",
					`			rest.busy = append(rest.busy, it)
`,
					``,
				},
			},
		},
		{
			"two processes run one job",
			[]edit{
				{
					"replayer/internal/lease/lease.go",
					`exclusive.Open(ctx, cfg.Broker, Queue(cfg.Topology, id), timeout)`,
					`exclusive.Open(ctx, cfg.Broker, Queue(cfg.Topology, fmt.Sprint(id, time.Now().UnixNano())), timeout)`,
				},
			},
		},
		{
			"an attempt in an outage is not refunded",
			[]edit{
				{
					"pipeline/internal/admission/breaker/breaker.go",
					`	return !b.cfg.ExhaustedAlike(s.Waits, s.WaitsSince, b.now())
`,
					`	return false
`,
				},
			},
		},
		{
			"an event follows the acknowledgement",
			[]edit{
				{
					"pipeline/route_handler.go",
					`	return h.publishHandled(ctx, t.VerifiedState, h.route.Queue, took)
}`,
					`	go func() {
		time.Sleep(time.Millisecond)
		_ = h.publishHandled(context.WithoutCancel(ctx), t.VerifiedState, h.route.Queue, took)
	}()
	return nil
}`,
				},
			},
		},
		{
			"a job that stops keeps its lease",
			[]edit{
				{
					"replayer/run.go",
					`		closed := l.Close()
`,
					`		var closed error
`,
				},
			},
		},
		{
			"the next process forgets the places of messages that wait",
			[]edit{
				{
					"pipeline/internal/admission/placelog/placelog.go",
					`	if l.keep(r, d) {
`,
					`	if l.keep(r, d) && l.cfg.Route == "" {
`,
				},
			},
		},
		{
			"a message that is delivered again is taken for a new one",
			[]edit{
				{
					"pipeline/internal/admission/fairness/gate.go",
					`	if redelivered && t.key != nil && g.cfg.Ordered {
`,
					`	if redelivered && t.key != nil && g.cfg.Ordered && g.position < 0 {
`,
				},
			},
		},
		{
			"a watermark passes events that are not written",
			[]edit{
				{
					"indexer/claim.go",
					`		next = min(next, b.above)
`,
					`		next = max(next, b.above)
`,
				},
			},
		},
		{
			"a message that a process had prefetched when it ended is poison",
			[]edit{
				{
					"pipeline/internal/admission/suspect.go",
					`		if all, condemned := g.Condemns(0); condemned {
`,
					`		if all, _ := g.Condemns(0); all > 0 {
`,
				},
			},
		},
		{
			"a message that is due returns twice",
			[]edit{
				{
					"pipeline/retry.go",
					`	return r.returnInTime(ctx, e, state)
}

// restOfDelay`,
					`	if err := r.returnInTime(ctx, e, state); err != nil {
		return err
	}
	return r.returnInTime(ctx, e, state)
}

// restOfDelay`,
				},
			},
		},
		{
			"a route that begins again does not know of its pause",
			[]edit{
				{
					"pipeline/reload.go",
					`	err = p.addHandlers(watermillLogger(p.cfg.Logger))
	p.forget(stopped)
	p.mu.Unlock()
	if err != nil {
		return err
	}
	p.pauses.Check(ctx)
`,
					`	for _, queue := range stopped {
		p.pauses.Forget(queue)
	}
	err = p.addHandlers(watermillLogger(p.cfg.Logger))
	p.forget(stopped)
	p.mu.Unlock()
	if err != nil {
		return err
	}
`,
				},
			},
		},
		{
			"an event counts although the broker refused it",
			[]edit{
				{
					"pipeline/message_flow.go",
					`		m.Publishing = f.wrapWithoutBody(e, state, body)
		return f.publisher.Publish(ctx, m)
`,
					`		m.Publishing = f.wrapWithoutBody(e, state, body)
		_ = f.publisher.Publish(ctx, m)
		return nil
`,
				},
			},
		},
		{
			"the indexer acknowledges what the store has not written",
			[]edit{
				{
					"indexer/write.go",
					`			if pending, err = s.handleFailure(ctx, budget, pending, err); err != nil {
				return err
			}
			continue
`,
					`			return nil
`,
				},
			},
		},
		{
			"the place of a message that returns to its queue is forgotten",
			[]edit{
				{
					"pipeline/internal/admission/fairness/gate.go",
					`	g.addPlace(t.id, t.position)
	t.key.addQueued(t.position)
`,
					`	g.addPlace(t.id, t.position)
`,
				},
			},
		},
		{
			"a message waits half of its delay",
			[]edit{
				{
					"pipeline/message_flow.go",
					`	return f.schedule(ctx, before.Envelope, state, topology.DelayWithQueue(f.permanent, decision.Delay))
`,
					`	state.Delay /= 2
	return f.schedule(ctx, before.Envelope, state, topology.DelayWithQueue(f.permanent, decision.Delay/2))
`,
				},
			},
		},
		{
			"an attempt is not counted",
			[]edit{
				{
					"schemas/state.go",
					`	s.Attempt++
`,
					`	if s.Attempt == 0 {
		s.Attempt++
	}
`,
				},
			},
		},
		{
			"sequences go back with the clock",
			[]edit{
				{
					"indexer/clock.go",
					`	c.last = max(c.last+1, now.UnixMicro())
`,
					`	c.last = now.UnixMicro()
`,
				},
			},
		},
		{
			"a pause reaches no process",
			[]edit{
				{
					"internal/topology/pause/watcher.go",
					`			problems[i] = w.set(switches[queue], queue, paused, err)
`,
					`			problems[i] = w.set(switches[queue], queue, paused && err != nil, err)
`,
				},
			},
		},
	}
}

// formerFaults returns faults that Watership had, as they were before they were mended.
func formerFaults() []mutant {
	return []mutant{
		{
			"an alternate exchange of a policy takes what no queue is bound for",
			[]edit{
				{
					"internal/topology/returns.go",
					`	args := amqp.Table{alternateExchange: e.name}`,
					`	args := amqp.Table{}`,
				},
				{
					"internal/topology/returns.go",
					`	if lacks, _ := d.self.of(e.name); !lacks {
`,
					`	if lacks, _ := d.self.of(e.name); !lacks || e.name != "" {
`,
				},
			},
		},
		{
			"exclusive consumers are the lock of an ordered route, also of quorum queues",
			[]edit{
				{
					"pipeline/internal/admission/placelog/hold.go",
					`err == nil && (all <= 1 || !time.Now().Before(deadline)) {`,
					`err == nil && all >= 0 {`,
				},
				{
					"pipeline/internal/admission/placelog/hold.go",
					`channel.Consume(l.cfg.Queue, "", false, false, false, false, nil)`,
					`channel.Consume(l.cfg.Queue, "", false, true, false, false, nil)`,
				},
				{
					"pipeline/internal/admission/placelog/hold.go",
					`	deadline, none := time.Now().Add(most), 0
`,
					`	deadline, none := time.Now().Add(most), 0
	if most > 0 {
		return nil
	}
`,
				},
				{
					"pipeline/internal/admission/placelog/hold.go",
					`			_, err := ch.QueueDeclare(l.cfg.Lock, false, false, true, false, nil)
			return err
`,
					`			return nil
`,
				},
				{
					"pipeline/internal/admission/placelog/hold.go",
					`			if _, err := consumers(g.on, g.log.cfg.Lock); err != nil {
				return err
			}
`,
					"",
				},
			},
		},
		{
			"the lock of an ordered route is on another connection than its messages, which does not learn of its loss",
			[]edit{
				{
					"pipeline/internal/admission/placelog/hold.go",
					`	l := h.log
	select {
	case l.opening <- struct{}{}:
`,
					`	l := h.log
	if on, err = l.cfg.Other.Current(ctx); err != nil {
		return nil, err
	}
	select {
	case l.opening <- struct{}{}:
`,
				},
				{
					"pipeline/internal/admission/placelog/hold.go",
					`		if lost, err := h.join(ctx, on); lost != nil || err != nil {
			return lost, err
		}
`,
					`		if lost, err := h.join(ctx, on); lost != nil || err != nil {
			return make(chan struct{}), err
		}
`,
				},
				{
					"pipeline/internal/admission/placelog/placelog.go",
					`	Publisher publisher
	Gate `,
					`	Publisher publisher
	Other     *rabbit.Connection
	Gate `,
				},
				{
					"pipeline/build.go",
					`			Publisher: p.ownPublisher, Unordered:`,
					`			Other: p.connections.sending, Publisher: p.ownPublisher, Unordered:`,
				},
				{
					"internal/rabbit/connection.go",
					`// IsBlocked reports whether the broker has blocked a connection.
`,
					`// Current returns the connection of this moment.
func (c *Connection) Current(ctx context.Context) (*amqp.Connection, error) {
	for {
		now := c.status.get()
		if now.live != nil {
			return now.live.Connection, nil
		}
		select {
		case <-now.changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// IsBlocked reports whether the broker has blocked a connection.
`,
				},
			},
		},
		{
			"a new event does not wait for its body",
			[]edit{
				{
					"subscription/session.go",
					`	case event.BodyIn != schemas.BodyHere && bodies.MayCome(*event):
`,
					`	case event.BodyIn != schemas.BodyHere && bodies.MayCome(*event) && event.EventID == "":
`,
				},
			},
		},
		{
			"a watermark is released although its process has messages",
			[]edit{
				{
					"indexer/abandoned.go",
					`		if err == nil && counts.isEmpty() && (counts.missing || since >= expiredAfter) {
`,
					`		if err == nil && counts.messages == 0 && (counts.consumers <= 1 || since >= expiredAfter) {
`,
				},
			},
		},
	}
}
