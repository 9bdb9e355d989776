package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/watershipmq/watership/internal/operate/replays"
)

// stepFlags are the flags of the steps of a replay.
type stepFlags struct {
	canary      int
	percent     []float64
	stopIf      []string
	outcomeWait time.Duration
}

func (s *stepFlags) add(flags *pflag.FlagSet) {
	flags.IntVar(&s.canary, "canary", 0, "send this many first, wait for their outcome, and ask; with --yes or --ramp, as the first step of --ramp")
	flags.Float64SliceVar(&s.percent, "ramp", nil, "send in steps up to these percentages, such as 1,5,20,100, and judge the outcomes of each before the next")
	flags.StringArrayVar(&s.stopIf, "stop-if", nil, "pause the job if this is true of a step, such as 'failed > 2%', 'failed > 10' or, of a class, 'failed timeout > 1%' (default of --ramp: 'failed > 0')")
	addDuration(flags, &s.outcomeWait, "outcome-wait", time.Minute, "maximum wait for the outcomes of a canary or a step")
}

// ramp returns the steps of a job; nil: it has none, or a person is asked after its canary.
func (s *stepFlags) ramp(yes bool) *replays.Ramp {
	isGiven := len(s.percent)+len(s.stopIf) > 0
	if !isGiven && (s.canary == 0 || !yes) {
		return nil
	}
	ramp := replays.Ramp{First: s.canary, Percent: s.percent, StopIf: s.stopIf, WaitSeconds: s.outcomeWait.Seconds()}
	if isGiven && len(s.percent) == 0 {
		ramp.Percent = replays.DefaultSteps()
	}
	return &ramp
}

func (s *stepFlags) mistake() error {
	_, err := s.ramp(true).Replayer()
	return err
}
