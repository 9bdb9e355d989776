package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/wording"
)

func addPeriod(cmd *cobra.Command, p *app.Period) {
	addGiven(cmd.Flags(), &p.Since, "since", "only events of the last 15m, 1h30m, 7d, and so on")
	addGiven(cmd.Flags(), &p.From, "from", "only events at or after this time, such as 2026-05-04T03:00:00Z or now-1d/d")
	addGiven(cmd.Flags(), &p.To, "to", "only events before this time")
}

func is(field, value string) kql.Node {
	return kql.Is{Field: kql.Pattern{field}, Value: kql.Value{Pattern: kql.Pattern{value}, Quoted: true}}
}

// localTime formats a time of a document as the commands show it.
func localTime(text string) string {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	return wording.Time(at)
}
