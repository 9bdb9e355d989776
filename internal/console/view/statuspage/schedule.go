package statuspage

import (
	"math"
	"strconv"
	"time"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/routes"
)

// Schedule is a picture of the attempts of a message, on a logarithmic axis of time.
type Schedule struct {
	routes.Schedule
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
type Tick struct {
	X  string
	At time.Duration
}

// The axis goes from axisBegin to axisEnd percent of the width. Numbers of attempts and
// times need some room.
const (
	axisBegin, axisEnd  = 3.0, 94.0
	labelRoom, tickRoom = 3.5, 11.0
)

// NewSchedule draws a schedule.
func NewSchedule(s routes.Schedule) Schedule {
	made := Schedule{Schedule: s, Total: frame.Seconds(s.Total), Hidden: s.Attempts - 1 - len(s.Delays), End: percent(axisEnd + 4.5)}
	axis := axis{made.Total, time.Second}
	if len(s.Delays) > 0 && s.Delays[0] > 0 {
		axis.unit = frame.Seconds(s.Delays[0])
	}
	after, labelled := time.Duration(0), axisBegin
	made.Attempts = []Attempt{{Number: 1, X: percent(axisBegin), Labelled: true}}
	for i, delay := range s.Delays {
		after += frame.Seconds(delay)
		share := axis.position(after)
		next := Attempt{Number: i + 2, Delay: frame.Seconds(delay), After: after, X: percent(share), Labelled: share-labelled >= labelRoom}
		if next.Labelled {
			labelled = share
		}
		made.Attempts = append(made.Attempts, next)
	}
	made.Ticks = axis.ticks()
	return made
}

// axis is an axis of time. Times far below unit are at its begin.
type axis struct{ total, unit time.Duration }

// position returns the place of a time in percent.
func (a axis) position(at time.Duration) float64 {
	if a.total == 0 {
		return axisBegin
	}
	log := func(d time.Duration) float64 { return math.Log1p(float64(d) / float64(a.unit)) }
	return axisBegin + (axisEnd-axisBegin)*log(at)/log(a.total)
}

func (a axis) ticks() (ticks []Tick) {
	const day = 24 * time.Hour
	last := axisBegin
	for _, at := range []time.Duration{
		time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, day, 7 * day, 30 * day, 365 * day,
	} {
		if share := a.position(at); at < a.total && share-last > tickRoom {
			ticks, last = append(ticks, Tick{percent(share), at}), share
		}
	}
	return ticks
}

func percent(share float64) string { return strconv.FormatFloat(share, 'f', 2, 64) + "%" }

// JitterPercent is the share of each delay by which it may be shorter.
func (s Schedule) JitterPercent() int { return int(math.Round(100 * s.Jitter)) }

// GiveUpWithin is the time since the first failure after which there is no attempt.
func (s Schedule) GiveUpWithin() time.Duration { return frame.Seconds(s.GiveUpAfter) }
