package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/watershipmq/watership/internal/cli/sizing"
	"github.com/watershipmq/watership/internal/cli/terminal"
)

// sizingRow is the plan for a multiple of the traffic.
type sizingRow struct {
	Times   int            `json:"times"`
	Traffic sizing.Traffic `json:"traffic"`
	Plan    sizing.Plan    `json:"plan"`
}

func reportSizing(ctx context.Context, sys backend, to printer, format outputFormat) error {
	traffic, settings, err := readTraffic(ctx, sys)
	if err != nil {
		return err
	}
	var rows []sizingRow
	for _, times := range []int{1, 10} {
		t := traffic.Times(float64(times))
		rows = append(rows, sizingRow{times, t, sizing.New(t, settings)})
	}
	return writeItems(to.Out, format, rows, func() error { return to.sizing(rows) })
}

// readTraffic returns the traffic that the store has of the last 24 hours, and the settings to plan
// for it.
func readTraffic(ctx context.Context, sys backend) (sizing.Traffic, sizing.Settings, error) {
	version, err := sys.Version(ctx)
	if err != nil {
		return sizing.Traffic{}, sizing.Settings{}, err
	}
	settings := sizing.Settings{Retention: time.Duration(version.Settings.RetentionSeconds) * time.Second, Replicas: 1}
	traffic, err := sizing.Read(ctx, sys)
	return traffic, settings, err
}

// handledText says how many messages a handler of Watership gets, for each that is published. A
// message may reach several queues.
func handledText(each float64) string {
	if each > 1 {
		return fmt.Sprintf("each handled by Watership %.1f times on average", each)
	}
	return fmt.Sprintf("%.0f %% handled by Watership", 100*each)
}

func (p printer) sizing(rows []sizingRow) error {
	t := rows[0].Traffic
	err := p.printf("The last 24 hours: %s messages a second in the busiest minute, %s a day, bodies of %s, %s.\n",
		sizing.Amount(t.Peak), sizing.Amount(t.Daily), sizing.Bytes(t.Size), handledText(t.Handled))
	if err != nil {
		return err
	}
	columns := []terminal.Column{{Title: "TRAFFIC"}}
	for _, title := range sizing.Columns() {
		columns = append(columns, terminal.Column{Title: title})
	}
	table := terminal.NewTable(p.Out, p.screen, columns...)
	for _, row := range rows {
		name := "now"
		if row.Times > 1 {
			name = strconv.Itoa(row.Times) + " times"
		}
		if err := table.Row(append([]string{name}, row.Plan.Texts()...)...); err != nil {
			return err
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return p.printf("\nAn estimate: docs/sizing.md has its assumptions.")
}
