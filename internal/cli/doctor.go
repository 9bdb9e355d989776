package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/doctor"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/terminal"
)

func newDoctor(from *settings) *cobra.Command {
	var format output
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check servers and topology, with a remedy for each problem",
		Long: `Check the broker, the store and the topology, and print a remedy for each problem.
doctor changes nothing. It exits with 1 if there are errors, and with 0 if there are
only warnings.`,
		Example: "  watership doctor\n  watership doctor -o json",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := from.system(streamsOf(cmd))
			if err != nil {
				return err
			}
			findings := doctor.Run(cmd.Context(), s.examination())
			return reportFindings(findings, list{streamsOf(cmd), from.screen(cmd.OutOrStdout())}, format)
		},
	}
	format.addFlag(cmd, "table", "json")
	return cmd
}

// examination is the system as the checks of doctor need it.
func (s system) examination() doctor.Config {
	return doctor.Config{
		Settings: s.cfg, Topology: s.topology, Pipeline: s.pipeline(), Login: s.login, VHost: s.vhost,
		StateKeys: s.secrets.stateKeys, Client: s.secrets.managementClient(), StoreKind: s.storeKind(), Timeout: commandPatience,
		Connect:    func(ctx context.Context) (*rabbit.Connection, error) { return s.reach(ctx, "doctor") },
		Management: s.managementAPI,
		OpenStore:  func(ctx context.Context) (doctor.Store, error) { return s.store(ctx) },
		Ready:      func(ctx context.Context) (string, error) { return askServe(ctx, s.cfg.HTTP.Listen, "/readyz") },
		Paused:     s.pausedRoutes,
	}
}

// reportFindings prints what doctor found, and fails where that has errors.
func reportFindings(findings []doctor.Finding, to list, format output) error {
	errors, warnings := 0, 0
	for _, f := range findings {
		switch f.Verdict {
		case doctor.Wrong:
			errors++
		case doctor.Warning:
			warnings++
		}
	}
	if err := writeFindings(findings, to, format, errors, warnings); err != nil {
		return err
	}
	if errors > 0 {
		return fmt.Errorf("doctor found %s", terminal.Plural(errors, "error"))
	}
	return nil
}

func writeFindings(findings []doctor.Finding, to list, format output, errors, warnings int) error {
	if format.is("json") {
		return terminal.WriteIndentedJSON(to.Out, findings)
	}
	colours := map[doctor.Verdict]terminal.Colour{doctor.Fine: terminal.Green, doctor.Warning: terminal.Yellow, doctor.Wrong: terminal.Red}
	for _, f := range findings {
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
