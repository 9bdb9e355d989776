package cli

import (
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
	all    bool
	reason string
}

func (c *routeChoice) addFlags(cmd *cobra.Command, reason string) {
	cmd.Flags().BoolVar(&c.all, "all", false, "all routes, also those that are added later")
	cmd.Flags().StringVar(&c.reason, "reason", "", reason)
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
			switch {
			case err != nil:
				return err
			case strings.TrimSpace(choice.reason) == "":
				return usagef("--reason is required")
			case !drain && cmd.Flags().Changed("timeout"):
				return usagef("--timeout is for --drain")
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				if err := pauseRoute(ctx, sys, queue, choice.reason); err != nil {
					return err
				}
				to := from.printer(cmd)
				if err := to.printf("%s paused", subjectOf(queue)); err != nil || !drain {
					return err
				}
				if err := (drainer{sys, queue, statisticsAge, time.Second}).wait(ctx, timeout); err != nil {
					return err
				}
				return to.printf("no message is in flight")
			})
		},
	}
	choice.addFlags(cmd, "why (required)")
	cmd.Flags().BoolVar(&drain, "drain", false, "wait until no message is in flight")
	addDuration(cmd.Flags(), &timeout, "timeout", time.Minute, "of --drain: the longest wait")
	return cmd
}

func pauseRoute(ctx context.Context, sys operation.Via, queue, reason string) (err error) {
	in := routes.PauseInput{Queue: queue}
	in.Body.Reason = reason
	if queue == allRoutes {
		_, err = routes.PauseAllRoutes.Call(ctx, sys, in.PauseAllInput)
		return err
	}
	_, err = routes.PauseRoute.Call(ctx, sys, in)
	return err
}

func resumeRoute(ctx context.Context, sys operation.Via, queue, reason string) (routes.Resumed, error) {
	in := routes.ResumeRouteInput{Queue: queue}
	operation.Fill(&in.Body).Reason = reason
	if queue == allRoutes {
		resumed, err := routes.ResumeAllRoutes.Call(ctx, sys, in.ResumeAllInput)
		return resumed.Body, err
	}
	resumed, err := routes.ResumeRoute.Call(ctx, sys, in)
	return resumed.Body.Resumed, err
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
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				resumed, err := resumeRoute(ctx, sys, queue, choice.reason)
				if err != nil {
					return err
				}
				text := "no longer paused by hand"
				switch {
				case !resumed.Changed:
					text = "not paused by hand: there is nothing to do"
				case resumed.WithAll:
					text = "still paused, with all routes: resume all"
				}
				return from.printer(cmd).printf("%s %s", subjectOf(queue), text)
			})
		},
	}
	choice.addFlags(cmd, "why")
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
