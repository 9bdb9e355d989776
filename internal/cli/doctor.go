package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/terminal"
)

func newDoctor(from *settings) *cobra.Command {
	var format output
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything that Watership needs, and say what to do",
		Long: `doctor looks at the broker, the store and the topology, and changes nothing. For
each problem it says what to do. It exits with 1 if something is wrong, and with
0 if there are warnings only.`,
		Example: "  watership doctor\n  watership doctor -o json",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := from.system(streamsOf(cmd))
			if err != nil {
				return err
			}
			d := &doctor{system: s}
			d.examine(cmd.Context())
			return d.report(list{streamsOf(cmd), from.screen(cmd.OutOrStdout())}, format)
		},
	}
	format.addFlag(cmd, "table", "json")
	return cmd
}

// verdict is how a check came out.
type verdict string

const (
	fine    verdict = "ok"
	warning verdict = "warning"
	wrong   verdict = "error"
)

// finding is the result of one check.
type finding struct {
	Check   string  `json:"check"`
	Verdict verdict `json:"verdict"`
	Detail  string  `json:"detail"`
	Remedy  string  `json:"remedy,omitempty"`
}

// doctor collects findings. Checks that need what another did not find are left out.
type doctor struct {
	system
	findings []finding

	conn       *rabbit.Connection // nil: the broker cannot be reached
	management *rabbit.Management // nil: the management API cannot be asked
	version    string             // of the broker; "" where it is not known
	queues     map[string]rabbit.Queue
	policies   []rabbit.Policy
	store      eventStore // nil: the store cannot be reached
}

func (d *doctor) say(check string, v verdict, detail, remedy string) {
	d.findings = append(d.findings, finding{check, v, detail, remedy})
}

func (d *doctor) fine(check, format string, args ...any) {
	d.say(check, fine, fmt.Sprintf(format, args...), "")
}

// examine runs every check.
func (d *doctor) examine(ctx context.Context) {
	d.checkExposures()
	d.checkBroker(ctx)
	if d.conn != nil {
		defer d.conn.Close()
	}
	d.checkManagement(ctx)
	d.checkServe(ctx)
	d.checkStore(ctx)
	if d.store != nil {
		defer d.store.Close()
	}
	d.checkPaused(ctx)
	if d.management == nil {
		return
	}
	d.checkOurQueues()
	d.checkRouteQueues()
	d.checkBindings(ctx)
	d.checkExchanges(ctx)
	d.checkTrust(ctx)
	d.checkTapped(ctx)
	d.checkDeadLetters(ctx)
	d.checkDelays(ctx)
	d.checkLag()
}

func (d *doctor) report(to list, format output) error {
	errors, warnings := 0, 0
	for _, f := range d.findings {
		switch f.Verdict {
		case wrong:
			errors++
		case warning:
			warnings++
		}
	}
	if err := d.write(to, format, errors, warnings); err != nil {
		return err
	}
	if errors > 0 {
		return fmt.Errorf("doctor found %s", terminal.Plural(errors, "error"))
	}
	return nil
}

func (d *doctor) write(to list, format output, errors, warnings int) error {
	if format.is("json") {
		return terminal.WriteIndentedJSON(to.Out, d.findings)
	}
	colours := map[verdict]terminal.Colour{fine: terminal.Green, warning: terminal.Yellow, wrong: terminal.Red}
	for _, f := range d.findings {
		mark := to.screen.Paint(fmt.Sprintf("%-7s", f.Verdict), colours[f.Verdict])
		if err := to.say("%s  %-12s  %s", mark, f.Check, terminal.Cell(f.Detail, 0)); err != nil {
			return err
		}
		if f.Remedy != "" {
			if err := to.say("%-7s  %-12s  → %s", "", "", terminal.Cell(f.Remedy, 0)); err != nil {
				return err
			}
		}
	}
	return to.say("%s, %s", terminal.Plural(errors, "error"), terminal.Plural(warnings, "warning"))
}
