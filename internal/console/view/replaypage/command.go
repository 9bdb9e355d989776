package replaypage

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/replayer"
)

// Command returns the command that plans the same replay, and asks before it sends.
func (f Form) Command(total int) string {
	arguments := []string{"watership", "replay"}
	flag := func(name string, values ...string) {
		for _, value := range values {
			if value != "" {
				arguments = append(arguments, name, wording.Quoted(value))
			}
		}
	}
	yes := func(name string, given bool) {
		if given {
			arguments = append(arguments, name)
		}
	}
	isFlag := strings.HasPrefix(f.Query, "-")
	if f.Query != "" && !isFlag {
		arguments = append(arguments, wording.Quoted(f.Query))
	}
	flag("--since", f.Since)
	flag("--from", f.From)
	flag("--to", f.To)
	flag("--group", f.Group)
	yes("--to-failed-queue", f.Target.Kind == string(replayer.ToFailedQueue))
	flag("--to-queue", f.Target.Queue)
	if f.Target.Kind == string(replayer.ToExchange) {
		arguments = append(arguments, "--to-exchange", wording.Quoted(f.Target.Exchange))
	}
	flag("--key", f.Key())
	c := f.Changes
	flag("--set-header", c.SetHeaders...)
	flag("--remove-header", c.RemoveHeaders...)
	yes("--clear-headers", c.ClearHeaders)
	flag("--keep-headers", c.KeepHeaders...)
	flag("--set-property", c.SetProperties...)
	flag("--remove-property", c.RemoveProperties...)
	yes("--drop-reply-to=false", c.KeepReplyTo)
	yes("--again", f.Again)
	yes("--unchecked-routes", f.UncheckedRoutes)
	if f.Rate > 0 {
		flag("--rate", strconv.FormatFloat(f.Rate, 'f', -1, 64))
	}
	if f.Limit > 0 {
		flag("--limit", strconv.Itoa(f.Limit))
	}
	flag("--ramp", f.Steps())
	flag("--stop-if", f.StopIf()...)
	flag("--reason", f.Reason)
	if len(f.IDs) > 0 {
		flag("--ids", "-")
		flag("--expect", strconv.Itoa(total))
		yes("--yes", true)
	}
	if isFlag {
		arguments = append(arguments, "--", wording.Quoted(f.Query))
	}
	zone := ""
	if f.Zone != "" && regexp.MustCompile(`\d{4}-\d\d|/d`).MatchString(f.Query+f.From+f.To) {
		zone = "TZ=" + wording.Quoted(f.Zone) + " "
	}
	line := zone + strings.Join(arguments, " ")
	if len(f.IDs) == 0 {
		return line
	}
	ids := make([]string, len(f.IDs))
	for i, id := range f.IDs {
		ids[i] = wording.Quoted(id)
	}
	return `printf '%s\n' ` + strings.Join(ids, " ") + " | " + line
}
