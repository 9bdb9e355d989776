package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/render/wording"
)

func newDoctor(from *settings) *cobra.Command {
	var format outputFormat
	var plan bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check servers and topology, with a remedy for each problem",
		Long: `Check the broker, the store and the topology, and print a remedy for each problem.
doctor changes nothing. It exits with 1 if there are errors, and with 0 if there are
only warnings.

With --sizing it estimates instead what the traffic of the last 24 hours needs: cores,
disk space and shards.`,
		Example: "  watership doctor\n  watership doctor -o json\n  watership doctor --sizing",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				if plan {
					return reportSizing(ctx, sys, from.printer(cmd), format)
				}
				diagnosis, err := doctor.RunDoctor.Call(ctx, sys, doctor.DoctorInput{})
				if err != nil {
					return err
				}
				return reportFindings(diagnosis.Body.Findings, from.printer(cmd), format)
			})
		},
	}
	cmd.Flags().BoolVar(&plan, "sizing", false, "estimate what the traffic of the last 24 hours needs")
	format.addFlag(cmd, "table", "json")
	return cmd
}

// reportFindings prints the findings, and returns an error if one of them is an error.
func reportFindings(findings []doctor.Finding, to printer, format outputFormat) error {
	errors, warnings := 0, 0
	for _, f := range findings {
		switch f.Verdict {
		case doctor.Error:
			errors++
		case doctor.Warning:
			warnings++
		}
	}
	err := writeItems(to.Out, format, findings, func() error { return to.findings(findings, errors, warnings) })
	if err != nil {
		return err
	}
	if errors > 0 {
		return fmt.Errorf("doctor found %s", wording.Plural(errors, "error"))
	}
	return nil
}

func (p printer) findings(findings []doctor.Finding, errors, warnings int) error {
	colours := map[doctor.Verdict]terminal.Colour{doctor.OK: terminal.Green, doctor.Warning: terminal.Yellow, doctor.Error: terminal.Red}
	for _, f := range findings {
		mark := p.screen.Paint(fmt.Sprintf("%-7s", f.Verdict), colours[f.Verdict])
		detail := terminal.Cell(f.Detail, 0)
		if f.Since != nil {
			detail += ", since " + terminal.Time(*f.Since)
		}
		if err := p.printf("%s  %-13s  %s", mark, f.Check.Text(), detail); err != nil {
			return err
		}
		if remedy := f.Instruction(); remedy != "" {
			if err := p.printf("%-7s  %-13s  → %s", "", "", terminal.Cell(remedy, 0)); err != nil {
				return err
			}
		}
	}
	if err := p.printf("%s, %s", wording.Plural(errors, "error"), wording.Plural(warnings, "warning")); err != nil || errors+warnings == 0 {
		return err
	}
	return p.printf("\"watership help troubleshooting\" has causes and remedies by the names of the checks.")
}
