package replays

import (
	"fmt"
	"time"

	"github.com/watershipmq/watership/replayer"
)

// Schedule says when the messages of a replay are sent, besides the rate.
type Schedule struct {
	Pace          float64 `json:"pace,omitempty" minimum:"0" maximum:"1000000" doc:"Keep the spacing of the events, and make it so many times as fast; 0: send without pauses"`
	MaxGapSeconds float64 `json:"max_gap_seconds,omitempty" minimum:"0" maximum:"31536000" doc:"Maximum pause between two messages of pace; 0: no maximum"`
	InFlight      int     `json:"at_most_in_flight,omitempty" minimum:"0" maximum:"2000" doc:"Maximum number of messages that were sent and about which no consumer has reported; 0: no limit"`
	Order         string  `json:"order,omitempty" enum:"stream,version" doc:"stream: send a message of a stream when the one before it was handled, and many streams side by side; version: send the messages of each stream by their versions; none: send in the order of the record"`
	Ramp          *Ramp   `json:"ramp,omitempty" doc:"Send in steps, and judge the outcomes of each before the next; none: send all"`
	OnFailure     string  `json:"on_failure,omitempty" enum:"stop,continue" doc:"Of order stream: whether a stream ends at a message that fails (default), or goes on"`
}

// ScheduleOf returns the JSON of the schedule of a job.
func ScheduleOf(j replayer.Job) Schedule {
	return Schedule{Pace: j.Pace, MaxGapSeconds: j.MaxGap.Seconds(), InFlight: j.InFlight, Order: j.Order, OnFailure: j.OnFailure, Ramp: rampOf(j.Ramp)}
}

// Apply sets the schedule of a job. It returns a mistake in the ramp.
func (s Schedule) Apply(j *replayer.Job) (err error) {
	j.Pace, j.MaxGap, j.InFlight, j.Order = s.Pace, time.Duration(s.MaxGapSeconds*float64(time.Second)), s.InFlight, s.Order
	j.Ramp, err = s.Ramp.Replayer()
	if s.OnFailure == replayer.GoOn {
		j.OnFailure = replayer.GoOn
	}
	return err
}

// Words returns the schedule in words.
func Words(s Schedule) (lines []string) {
	add := func(format string, values ...any) { lines = append(lines, fmt.Sprintf(format, values...)) }
	if s.Pace > 0 {
		add("sent with the spacing of the events, %gx as fast", s.Pace)
	}
	if s.MaxGapSeconds > 0 {
		add("at most %s between two messages", time.Duration(s.MaxGapSeconds*float64(time.Second)))
	}
	if s.InFlight > 0 {
		add("at most %d in flight until their consumers report", s.InFlight)
	}
	switch s.Order {
	case replayer.ByStream:
		add("each stream in order, as its messages are handled")
	case replayer.ByVersion:
		add("each stream by its versions")
	}
	if s.OnFailure == replayer.GoOn {
		add("streams go on after a failure")
	}
	return append(lines, s.Ramp.words()...)
}
