package replays

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/replayer"
)

// Ramp has the steps of a replay, and the failures at which it stops. Without steps it has
// DefaultSteps, and without limits it stops at any failure.
type Ramp struct {
	First       int       `json:"first,omitempty" minimum:"0" doc:"Messages of the first step, before those of percent"`
	Percent     []float64 `json:"percent,omitempty" maxItems:"100" nullable:"false" doc:"Part of all messages after which a step ends, ascending; without it and first: 1, 5, 20, 100"`
	StopIf      []string  `json:"stop_if,omitempty" maxItems:"20" nullable:"false" doc:"Pause the job while a step is sent or after it, such as: failed > 2%, failed > 10, or of a class: failed timeout > 1%. A percentage is of the messages of the step. None: failed > 0"`
	WaitSeconds float64   `json:"wait_seconds,omitempty" minimum:"0" maximum:"31536000" doc:"Maximum wait for the outcomes of a step; 0: a minute"`
}

// DefaultSteps are the percentages of a ramp without steps.
func DefaultSteps() []float64 { return []float64{1, 5, 20, 100} }

// RampStep is a step of a replay that has ended.
type RampStep struct {
	End     int       `json:"end" doc:"Messages of the job that were sent, left out or not sent by then"`
	Sent    int       `json:"sent" doc:"In this step, as the other numbers"`
	Handled int       `json:"handled"`
	Failed  int       `json:"failed" doc:"With messages that will be tried again, and those that could not be sent"`
	Silent  int       `json:"silent" doc:"Without an outcome, from consumers that report failures alone"`
	Problem string    `json:"problem,omitempty" doc:"Why the job was paused; none: the next step followed"`
	Judged  time.Time `json:"judged"`
}

// rampOf returns the JSON of the ramp of a job; nil: it has none.
func rampOf(r replayer.Ramp) *Ramp {
	if r.Equal(replayer.Ramp{}) {
		return nil
	}
	ramp := Ramp{First: r.First, Percent: r.Percent, WaitSeconds: r.Wait.Seconds()}
	for _, limit := range r.StopIf {
		ramp.StopIf = append(ramp.StopIf, limit.String())
	}
	return &ramp
}

// Replayer returns the ramp of a job.
func (r *Ramp) Replayer() (replayer.Ramp, error) {
	if r == nil {
		return replayer.Ramp{}, nil
	}
	ramp := replayer.Ramp{First: r.First, Percent: r.Percent, Wait: time.Duration(r.WaitSeconds * float64(time.Second))}
	if r.First == 0 && len(r.Percent) == 0 {
		ramp.Percent = DefaultSteps()
	}
	for _, text := range r.StopIf {
		limit, err := replayer.ParseLimit(text)
		if err != nil {
			return ramp, err
		}
		ramp.StopIf = append(ramp.StopIf, limit)
	}
	if len(r.StopIf) == 0 {
		ramp.StopIf = []replayer.Limit{{}}
	}
	return ramp, ramp.Check()
}

// words returns the ramp in words.
func (r *Ramp) words() (lines []string) {
	ramp, err := r.Replayer()
	if err != nil || r == nil {
		return nil
	}
	var ends []string
	if ramp.First > 0 {
		ends = append(ends, wording.Plural(ramp.First, "message"))
	}
	for _, percent := range ramp.Percent {
		ends = append(ends, strconv.FormatFloat(percent, 'f', -1, 64)+" %")
	}
	limits := make([]string, len(ramp.StopIf))
	for i, limit := range ramp.StopIf {
		limits[i] = limit.String()
	}
	return []string{
		"in steps up to " + strings.Join(ends, ", ") + ", each judged before the next",
		fmt.Sprintf("paused if %s, or if a step cannot be judged after %s", strings.Join(limits, " or "), wording.Duration(ramp.WaitOrDefault())),
	}
}
