package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/render/wording"
)

// allRoutes stands for all routes in the place of a queue.
const allRoutes = ""

// routeChoice are the arguments that choose a route, or all.
type routeChoice struct {
	action
	all bool
}

func (c *routeChoice) addRouteFlags(cmd *cobra.Command, reason string) {
	cmd.Flags().BoolVar(&c.all, "all", false, "all routes, also those that are added later")
	c.addExpect(cmd)
	c.addFlags(cmd, reason)
}

// queue returns the queue of the route, or allRoutes.
func (c *routeChoice) queue(args []string) (string, error) {
	switch {
	case c.all && len(args) > 0:
		return "", usagef("--all and a queue cannot be combined")
	case !c.all && (len(args) != 1 || strings.TrimSpace(args[0]) == ""):
		return "", usagef("expected the queue of the route, or --all")
	case c.all:
		return allRoutes, nil
	}
	return args[0], nil
}

// bounds returns the flags as an operation takes them.
func (c *routeChoice) bounds() operation.Bounds {
	return operation.Bounds{Reason: c.reason, DryRun: c.dryRun, Expect: c.expect}
}

// print prints the result of a change, or the routes of a dry run.
func (c *routeChoice) print(found routes.RoutesFound, text string, body any) error {
	if c.dryRun {
		text = wording.Plural(len(found.Routes), "route") + " to " + text
		for _, queue := range found.Routes {
			text += "\n  " + terminal.Cell(queue, 255)
		}
	}
	if _, err := fmt.Fprintln(c.readers(), text); err != nil {
		return err
	}
	return c.writeJSON(body)
}

func newPause(from *settings) *cobra.Command {
	var choice routeChoice
	var drain bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "pause [QUEUE]",
		Short: "Pause the route of a queue, or all routes, in every process",
		Long: `Pause a route: every process that handles it finishes the messages that its handlers
have, and takes no more within seconds. Messages wait in the queue. The route stays
paused over restarts, until it is resumed. An event has the operator and the reason.

--drain waits until no process has a message of the route: RabbitMQ's management API has
to say so for some seconds, since its numbers are up to 5 s old. When --timeout is over
the exit code is 1, and the route stays paused.`,
		Example: `  watership routes pause orders --reason 'the database moves'
  watership routes pause --all --drain --timeout 5m --reason 'RabbitMQ is upgraded'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			queue, err := choice.queue(args)
			if err != nil {
				return err
			}
			if err := cmp.Or(choice.needReason(), choice.read(from, cmd, "")); err != nil {
				return err
			}
			switch {
			case !drain && cmd.Flags().Changed("timeout"):
				return usagef("--timeout is for --drain")
			case drain && choice.dryRun:
				return usagef("--dry-run and --drain exclude each other")
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				if err := choice.pause(ctx, sys, queue); err != nil || !drain {
					return err
				}
				if err := (drainer{sys, queue, statisticsAge, time.Second}).wait(ctx, timeout); err != nil {
					return err
				}
				_, err := fmt.Fprintln(choice.readers(), "no message is in flight")
				return err
			})
		},
	}
	choice.addRouteFlags(cmd, "why (required)")
	cmd.Flags().BoolVar(&drain, "drain", false, "wait until no message is in flight")
	addDuration(cmd.Flags(), &timeout, "timeout", time.Minute, "of --drain: the longest wait")
	return cmd
}

func (c *routeChoice) pause(ctx context.Context, sys operation.Via, queue string) error {
	ctx, in := withOperator(ctx, c.operator), routes.PauseInput{Queue: queue}
	in.Body.Bounds = c.bounds()
	text := "pause"
	if !c.dryRun {
		text = subjectOf(queue) + " paused"
	}
	if queue == allRoutes {
		paused, err := routes.PauseAllRoutes.Call(ctx, sys, in.PauseAllInput)
		if err != nil {
			return err
		}
		return c.print(paused.Body.RoutesFound, text, paused.Body)
	}
	paused, err := routes.PauseRoute.Call(ctx, sys, in)
	if err != nil {
		return err
	}
	return c.print(paused.Body.RoutesFound, text, paused.Body)
}

func (c *routeChoice) resume(ctx context.Context, sys operation.Via, queue string) error {
	ctx, in := withOperator(ctx, c.operator), routes.ResumeRouteInput{Queue: queue}
	operation.Fill(&in.Body).Bounds = c.bounds()
	if queue == allRoutes {
		resumed, err := routes.ResumeAllRoutes.Call(ctx, sys, in.ResumeAllInput)
		if err != nil {
			return err
		}
		return c.print(resumed.Body.RoutesFound, c.resumed(queue, resumed.Body.Resumed), resumed.Body)
	}
	resumed, err := routes.ResumeRoute.Call(ctx, sys, in)
	if err != nil {
		return err
	}
	return c.print(resumed.Body.RoutesFound, c.resumed(queue, resumed.Body.Resumed), resumed.Body)
}

// resumed describes the effects of a resume.
func (c *routeChoice) resumed(queue string, r routes.Resumed) string {
	switch {
	case c.dryRun:
		return "resume"
	case !r.Changed:
		return subjectOf(queue) + " not paused by hand: there is nothing to do"
	case r.WithAll:
		return subjectOf(queue) + " still paused, with all routes: resume all"
	}
	return subjectOf(queue) + " no longer paused by hand"
}

func newResume(from *settings) *cobra.Command {
	var choice routeChoice
	cmd := &cobra.Command{
		Use:   "resume [QUEUE]",
		Short: "Resume the route of a queue, or all, that an operator has paused",
		Long: `Resume a route that an operator has paused. --all ends "pause --all": routes that are
paused by themselves stay so.`,
		Example: `  watership routes resume orders
  watership routes resume --all`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			queue, err := choice.queue(args)
			if err != nil {
				return err
			}
			if err := choice.read(from, cmd, ""); err != nil {
				return err
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error { return choice.resume(ctx, sys, queue) })
		},
	}
	choice.addRouteFlags(cmd, "why")
	return cmd
}

// subjectOf begins a sentence about the route of a queue, or about all.
func subjectOf(queue string) string {
	if queue == allRoutes {
		return "all routes are"
	}
	return "the route of queue " + terminal.Cell(queue, 255) + " is"
}

// statisticsAge is longer than the interval in which RabbitMQ collects the numbers of its
// management API (collect_statistics_interval, 5 s).
const statisticsAge = 6 * time.Second

// drainer waits for the messages in flight of paused routes. A queue without consumers gets no
// more of them, but the numbers of the management API may be older than its last consumer.
type drainer struct {
	sys   operation.Via
	queue string // or allRoutes
	age   time.Duration
	every time.Duration
}

func (d drainer) wait(ctx context.Context, timeout time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	left := "nothing is known"
	for quiet := map[string]time.Time{}; ; {
		states, err := routeStates(limited, d.sys) // an error of the store does not matter
		switch {
		case states != nil:
			if left, err = d.left(states, quiet); err != nil || left == "" {
				return err
			}
		case err != nil && limited.Err() == nil:
			return err
		}
		select {
		case <-time.After(d.every):
		case <-limited.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("not drained within %s: %s; %s still paused", timeout, left, subjectOf(d.queue))
		}
	}
}

// left describes the first route that is not drained; "" if all are. quiet has the times since
// which queues have no consumer.
func (d drainer) left(states []routes.RouteState, quiet map[string]time.Time) (string, error) {
	left := ""
	for _, s := range states {
		if s.State == "no queue" || !s.ByHand && !s.WithAll || d.queue != allRoutes && s.Queue != d.queue {
			continue
		}
		if s.InFlight == nil {
			return "", errors.New("the messages in flight are not known, as RabbitMQ's management API does not tell: see amqp.management_url")
		}
		if s.Consumers > 0 {
			delete(quiet, s.Queue)
		} else if quiet[s.Queue].IsZero() {
			quiet[s.Queue] = time.Now()
		}
		since, stopped := quiet[s.Queue]
		switch {
		case left != "":
		case *s.InFlight > 0 || stopped && time.Since(since) < d.age: // a quorum queue counts a consumer until its last message is settled
			left = fmt.Sprintf("%s of queue %s in flight", wording.Plural(int(*s.InFlight), "message"), terminal.Cell(s.Queue, 255))
		case !stopped:
			left = wording.Plural(s.Consumers, "consumer") + " of queue " + terminal.Cell(s.Queue, 255)
		}
	}
	return left, nil
}
