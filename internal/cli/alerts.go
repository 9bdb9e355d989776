package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/alerts"
	"github.com/watershipmq/watership/internal/operate/alerts/notice"
	"github.com/watershipmq/watership/internal/render/wording"
)

func newAlerts(from *settings) *cobra.Command {
	var format outputFormat
	cmd := &cobra.Command{
		Use:     "alerts",
		Aliases: []string{"alert"},
		Short:   "List the alerts that fire, and test receivers",
		Long: `List the alerts that fire, and those that are pending: their condition does not last
long enough yet. One process of 'watership serve' evaluates the rules of alerts.rules
and notifies the receivers of alerts.receivers.`,
		Example: "  watership alerts\n  watership alerts -o json\n  watership alerts test\n  watership alerts test on-call",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				found, err := alerts.ListAlerts.Call(ctx, sys, struct{}{})
				if err != nil {
					return err
				}
				v := found.Body
				to := alertPrinter{from.printer(cmd)}
				to.omitted(v)
				return writeItems(to.Out, format, v.Alerts, func() error { return to.alerts(v, time.Now()) })
			})
		},
	}
	format.addFlag(cmd, "table", "json", "ndjson")
	cmd.AddCommand(newAlertTest(from))
	return cmd
}

func newAlertTest(from *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "test [RECEIVER]",
		Short: "Send a test to a receiver, or to all, and print the answers",
		Long: `Send a notice that is marked as a test, and print what the receiver answered. It fails
if a receiver does not take the notice. Without --server the command sends it itself,
from this machine.`,
		Example: "  watership alerts test\n  watership alerts test on-call --server https://watership.example",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("expected one receiver, or none for all, got %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				var asked alerts.TestInput
				asked.Body.Receiver = strings.Join(args, "")
				tested, err := alerts.TestAlerts.Call(ctx, sys, asked)
				if err != nil {
					return err
				}
				return alertPrinter{from.printer(cmd)}.answers(tested.Body.Answers)
			})
		},
	}
}

// alertPrinter prints alerts.
type alertPrinter struct{ printer }

func (p alertPrinter) answers(answers []alerts.Answer) error {
	refused := 0
	for _, a := range answers {
		mark := p.screen.Paint("taken  ", terminal.Green)
		if !a.Taken {
			refused++
			mark = p.screen.Paint("refused", terminal.Red)
		}
		if err := p.printf("%s  %s (%s %s): %s", mark, terminal.Cell(a.Receiver, 0), a.Kind, terminal.Cell(a.To, 0), terminal.Cell(a.Answer, 0)); err != nil {
			return err
		}
	}
	if refused > 0 {
		return fmt.Errorf("%s did not take the test", wording.Plural(refused, "receiver"))
	}
	return nil
}

// staleAlerts is the age from which no process seems to save the state of the alerts.
const staleAlerts = time.Minute

func (p alertPrinter) alerts(v alerts.Alerts, now time.Time) error {
	if err := p.alertTable(v.Alerts); err != nil {
		return err
	}
	for _, r := range v.Rules {
		if r.Error != "" {
			p.Warn("the rule %s cannot be evaluated: %s", r.Name, r.Error)
		}
	}
	for _, r := range v.Receivers {
		if r.Error != "" {
			p.Warn("the receiver %s did not take %s: %s", r.Name, wording.Plural(r.Failures, "notice"), r.Error)
		}
	}
	switch {
	case v.Saved == nil:
		p.Warn("no process has evaluated rules yet: see alerts in the configuration of watership serve")
	case v.Process == "" || now.Sub(*v.Saved) > staleAlerts:
		p.Warn("no process evaluates the rules since %s", terminal.Time(*v.Saved))
	}
	return nil
}

// omitted reports the alerts that are not listed, in every format.
func (p alertPrinter) omitted(v alerts.Alerts) {
	for _, r := range v.Rules {
		if r.Omitted > 0 {
			p.Warn("%s of rule %s not listed: a rule has at most %d at a time", wording.Plural(r.Omitted, "further alert"), r.Name, notice.MaxOfRule)
		}
	}
}

func (p alertPrinter) alertTable(items []notice.Item) error {
	if len(items) == 0 {
		return p.printf("no alert fires")
	}
	t := terminal.NewTable(p.Out, p.screen,
		terminal.Column{Title: "STATUS", Fixed: true, Colours: map[string]terminal.Colour{notice.Firing: terminal.Red, notice.Pending: terminal.Yellow}},
		terminal.Column{Title: "SEVERITY", Fixed: true, DropOrder: 2}, terminal.Column{Title: "SINCE", Fixed: true, Times: true}, terminal.Column{Title: "RULE", DropOrder: 1},
		terminal.Column{Title: "SUMMARY"})
	for _, item := range items {
		if err := t.Row(item.Status, item.Severity, terminal.TimeCell(item.Since), item.Rule, item.Summary); err != nil {
			return err
		}
	}
	return t.Flush()
}
