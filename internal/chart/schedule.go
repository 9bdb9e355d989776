package chart

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/watershipmq/watership/internal/routestate"
	"github.com/watershipmq/watership/internal/wording"
)

// Schedule is a picture of the attempts of a message, on a logarithmic axis of time.
type Schedule struct {
	routestate.Schedule
	Total    time.Duration
	Attempts []Attempt
	Ticks    []Tick
	End      string // where the message is given up, as a share of the width
	Hidden   int    // attempts that the picture leaves out
}

// Attempt is an attempt at a place of the axis.
type Attempt struct {
	Number       int
	Delay, After time.Duration // since the attempt before, and since the first
	X            string        // such as 12.50%
	Labelled     bool          // there is room for its number
}

// Tick is a time of the axis.
type Tick struct{ X, Text string }

// The axis goes from axisBegin to axisEnd percent of the width. Numbers of attempts and
// times need some room.
const (
	axisBegin, axisEnd  = 3.0, 94.0
	labelRoom, tickRoom = 3.5, 11.0
)

// NewSchedule draws a schedule.
func NewSchedule(s routestate.Schedule) Schedule {
	total := seconds(s.Total)
	made := Schedule{Schedule: s, Total: total, Hidden: s.Attempts - 1 - len(s.Delays)}
	unit := time.Second
	if len(s.Delays) > 0 && s.Delays[0] > 0 {
		unit = seconds(s.Delays[0])
	}
	after, labelled := time.Duration(0), axisBegin
	made.Attempts = []Attempt{{Number: 1, X: percent(axisBegin), Labelled: true}}
	for i, delay := range s.Delays {
		after += seconds(delay)
		share := position(after, total, unit)
		next := Attempt{Number: i + 2, Delay: seconds(delay), After: after, X: percent(share), Labelled: share-labelled >= labelRoom}
		if next.Labelled {
			labelled = share
		}
		made.Attempts = append(made.Attempts, next)
	}
	made.End = percent(axisEnd + 4.5)
	last := math.Inf(-1)
	for _, at := range []time.Duration{
		time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 365 * 24 * time.Hour,
	} {
		share := position(at, total, unit)
		if at < total && share-last > tickRoom && share > axisBegin+tickRoom {
			made.Ticks, last = append(made.Ticks, Tick{percent(share), wording.Duration(at)}), share
		}
	}
	return made
}

// position returns the place of a time on the axis in percent.
func position(at, total, unit time.Duration) float64 {
	if total == 0 {
		return axisBegin
	}
	log := func(d time.Duration) float64 { return math.Log1p(float64(d) / float64(unit)) }
	return axisBegin + (axisEnd-axisBegin)*log(at)/log(total)
}

func percent(share float64) string { return strconv.FormatFloat(share, 'f', 2, 64) + "%" }

// Text describes the picture.
func (s Schedule) Text() string {
	if s.Schedule.Attempts == 1 {
		return "One attempt; a message that fails is given up"
	}
	text := fmt.Sprintf("%d attempts within %s", s.Schedule.Attempts, wording.Duration(s.Total))
	if s.Jitter > 0 {
		text += fmt.Sprintf(", each delay shorter by up to %.0f %%", 100*s.Jitter)
	}
	return text
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}
