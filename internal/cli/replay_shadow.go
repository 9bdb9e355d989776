package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/watershipmq/watership/internal/cli/shadowhttp"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/render/jsondiff"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/routeconfig"
	"github.com/watershipmq/watership/internal/system/secret"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/replayer/shadow"
)

// shadowFlags are the flags of replay --shadow.
type shadowFlags struct {
	url         string
	queues      []string
	sample      share
	concurrency int
	timeout     time.Duration
	state       string
	ignore      []string
}

func (s *shadowFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	addNonEmpty(flags, &s.url, "shadow", "URL of a candidate version that gets the messages: nothing is published, and its outcomes are compared with the record")
	flags.StringArrayVar(&s.queues, "queue", nil, "of --shadow: queue whose handler the candidate is (default: every queue that has reported)")
	flags.Var(&s.sample, "sample", "of --shadow: part of the messages, such as 10%; the same messages in each run")
	flags.IntVar(&s.concurrency, "concurrency", 4, "of --shadow: requests at a time")
	addDuration(flags, &s.timeout, "timeout", 30*time.Second, "of --shadow: time of a request, with its response")
	addNonEmpty(flags, &s.state, "state", "of --shadow: file by which an interrupted comparison is resumed")
	flags.StringArrayVar(&s.ignore, "ignore", nil, "of --shadow: path of outgoing messages that always differs, such as .body.created_at")
}

// shadowOnly are the flags that have no meaning without --shadow, and shadowToo the others that
// have one with it.
func shadowOnly() []string {
	return []string{"queue", "sample", "concurrency", "timeout", "state", "ignore"}
}

func shadowToo() []string {
	return []string{"shadow", "ids", "dsl", "group", "rate", "limit", "since", "from", "to", "output"}
}

// check refuses flags that would have no effect.
func (s *shadowFlags) check(cmd *cobra.Command) error {
	if s.url == "" {
		for _, name := range shadowOnly() {
			if cmd.Flags().Changed(name) {
				return usagef("--%s is for --shadow", name)
			}
		}
		return nil
	}
	if s.concurrency < 1 || s.concurrency > maxShadowCalls {
		return usagef("--concurrency %d: expected 1 to %d", s.concurrency, maxShadowCalls)
	}
	if s.timeout <= 0 {
		return usagef("--timeout %s: expected more than 0", s.timeout)
	}
	for _, text := range s.ignore {
		if _, err := jsondiff.ParsePath(text); err != nil {
			return usagef("--ignore: %w", err)
		}
	}
	var err error
	own := cmd.LocalNonPersistentFlags()
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if own.Lookup(flag.Name) != nil && !slices.Contains(slices.Concat(shadowOnly(), shadowToo()), flag.Name) {
			err = usagef("--%s has no effect with --shadow, which publishes nothing", flag.Name)
		}
	})
	return err
}

const maxShadowCalls = 256

// differencesError is the result of a comparison with differences.
type differencesError struct{ different, compared int }

func (e differencesError) Error() string {
	return fmt.Sprintf("%d of %s differ from the record", e.different, wording.Plural(e.compared, "outcome"))
}

// runShadow compares on this machine: a server that requests any URL would reach what its
// callers cannot.
func (r *replay) runShadow(cmd *cobra.Command, from *settings) error {
	cfg, err := from.load()
	if err == nil && !cfg.Server.URL.IsZero() {
		return usagef("--shadow cannot go through a server, and %s sets one: run it where the store is configured (store.url)", originOf(cfg, "server"))
	}
	return from.with(cmd, func(ctx context.Context, a *system.System) error { return r.compare(ctx, newLocal(a, "")) })
}

// compare gives the messages to the candidate, and prints the report.
func (r *replay) compare(ctx context.Context, sys *local) error {
	request, err := r.request()
	if err != nil {
		return err
	}
	bar := terminal.NewBar(r.Err, r.limit)
	report, err := sys.compare(ctx, request, shadow.Config{
		Queues: r.shadow.queues, Sample: float64(r.shadow.sample), Limit: r.limit, Rate: r.rate, Concurrency: r.shadow.concurrency,
		Ignore: r.shadow.ignore, Causation: pipeline.HeaderCausation, State: r.shadow.state, Candidate: r.shadow.url,
		Progress: func(report shadow.Report) { bar.Show(report.Messages) },
	}, shadowhttp.Config{URL: r.shadow.url, Timeout: r.shadow.timeout})
	bar.End()
	if report.LeftOut != nil {
		if printErr := r.printReport(report); printErr != nil {
			return printErr
		}
	}
	switch {
	case err != nil && r.shadow.state != "" && report.LeftOut != nil:
		return fmt.Errorf("%w\ngo on with the same command, which reads %s", err, r.shadow.state)
	case err != nil:
		return err
	case report.Messages > 0 && report.Compared == 0:
		return errors.New("nothing was compared: no queue of the comparison has reported about these messages")
	case report.Different() > 0:
		return differencesError{report.Different(), report.Compared}
	}
	return nil
}

// compare gives the messages of a request to a candidate.
func (l *local) compare(ctx context.Context, request replays.Request, cfg shadow.Config, candidate shadowhttp.Config) (shadow.Report, error) {
	job, err := replays.Prepare(l.Language, request)
	if err != nil {
		return shadow.Report{}, err
	}
	settings := l.Settings()
	secrets, err := secret.Webhooks(settings.Routes)
	if err != nil {
		return shadow.Report{}, system.InputError{Err: err}
	}
	candidate.Of = func(queue string) webhook.Config {
		for _, route := range settings.Routes {
			if route.Queue == queue {
				return routeconfig.Of(route.Handler.HTTP, secrets[queue])
			}
		}
		return webhook.Config{}
	}
	if cfg.Handler, err = shadowhttp.New(candidate); err != nil {
		return shadow.Report{}, usagef("--shadow: %w", err)
	}
	store, err := l.Store(ctx)
	if err != nil {
		return shadow.Report{}, err
	}
	cfg.Store, cfg.Query, cfg.DSL, cfg.Fingerprints = store, job.Query, job.DSL, settings.Fingerprint
	report, err := shadow.Run(ctx, cfg)
	if err == nil && report.Messages == 0 {
		err = store.Check(ctx)
	}
	return report, err
}

func (r *replay) printReport(report shadow.Report) error {
	if r.format.is("json") {
		return terminal.WriteIndentedJSON(r.Out, report)
	}
	var page bytes.Buffer
	fmt.Fprintf(&page, "%s, %s compared: %d the same, %d different\n", wording.Plural(report.Messages, "message"), wording.Plural(report.Compared, "outcome"), report.Same, report.Different())
	for _, reason := range slices.Sorted(maps.Keys(report.LeftOut)) {
		fmt.Fprintf(&page, "  %6d  left out: %s\n", report.LeftOut[reason], notComparedText(reason))
	}
	if report.Unlisted > 0 {
		fmt.Fprintf(&page, "  %6d  handled as before; their outgoing messages could not be compared\n", report.Unlisted)
	}
	for _, g := range report.Groups {
		writeGroup(&page, g)
	}
	if report.Others > 0 {
		fmt.Fprintf(&page, "\n%d other differences\n", report.Others)
	}
	_, err := r.Out.Write(page.Bytes())
	return err
}

func kindText(kind shadow.Kind) string {
	switch kind {
	case shadow.Fails:
		return "handled before, fails now"
	case shadow.Recovers:
		return "failed before, handled now"
	case shadow.FailsDifferently:
		return "another error"
	}
	return "other outgoing messages"
}

func writeGroup(page *bytes.Buffer, g shadow.Group) {
	of := ""
	if g.Type != "" {
		of = ", type " + g.Type
	}
	fmt.Fprintf(page, "\n%6d  queue %s%s: %s\n        %s\n", g.Count, terminal.Cell(g.Queue, 80), terminal.Cell(of, 80), kindText(g.Kind), terminal.Cell(g.Detail, 160))
	for _, e := range g.Examples {
		name := "event " + e.EventID
		if e.MessageID != "" {
			name = "message " + e.MessageID + ", event " + e.EventID
		}
		fmt.Fprintf(page, "        such as %s\n", terminal.Cell(name, 160))
		if len(e.Differences) == 0 {
			fmt.Fprintf(page, "          recorded:  %s\n          candidate: %s\n", terminal.Cell(e.Recorded, 160), terminal.Cell(e.Candidate, 160))
		}
		for _, difference := range e.Differences {
			fmt.Fprintf(page, "          %s\n", terminal.Cell(difference, 160))
		}
	}
}

// share is the value of --sample: a part such as 10%.
type share float64

// Set implements pflag.Value.
func (s *share) Set(text string) error {
	number, isPercent := strings.CutSuffix(text, "%")
	part, err := strconv.ParseFloat(number, 64)
	if isPercent {
		part /= 100
	}
	if err != nil || !(part > 0 && part <= 1) {
		return fmt.Errorf("expected a part above 0%% and up to 100%%, such as 10%%")
	}
	*s = share(part)
	return nil
}

// String implements pflag.Value.
func (s *share) String() string {
	if *s == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*s)*100, 'g', -1, 64) + "%"
}

// Type implements pflag.Value.
func (s *share) Type() string { return "part" }
