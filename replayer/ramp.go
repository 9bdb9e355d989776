package replayer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Ramp sends the messages of a job in steps, and judges a step by what its consumers report before the
// next one begins. The job is paused if one of StopIf holds, which is also looked for while a step is
// sent, and if a step cannot be judged. The zero value has no steps.
type Ramp struct {
	First   int       `json:"first,omitempty"`   // messages of a step before the steps of Percent; 0: no such step
	Percent []float64 `json:"percent,omitempty"` // of Job.Total, at which steps end, ascending; the rest is the last step
	StopIf  []Limit   `json:"stop_if,omitempty"` // nil: steps are waited for, and any outcome is accepted

	// Wait bounds the time from the end of a step until its messages have outcomes. Messages of
	// consumers that do not report, and from which failures return, count as good then. 0: a minute.
	Wait time.Duration `json:"wait,omitempty"`
}

// WaitOrDefault returns Wait, or a minute if it is 0.
func (r Ramp) WaitOrDefault() time.Duration { return cmp.Or(r.Wait, time.Minute) }

// Equal reports whether two ramps have the same steps and limits.
func (r Ramp) Equal(other Ramp) bool {
	return r.First == other.First && slices.Equal(r.Percent, other.Percent) && slices.Equal(r.StopIf, other.StopIf) && r.Wait == other.Wait
}

// Check returns a mistake of the ramp.
func (r Ramp) Check() error {
	for i, percent := range r.Percent {
		if !(percent > 0 && percent <= 100) || i > 0 && percent <= r.Percent[i-1] {
			return fmt.Errorf("steps of %v percent: expected ascending numbers above 0 and up to 100", r.Percent)
		}
	}
	if r.First < 0 || r.Wait < 0 {
		return errors.New("expected a first step and a wait of 0 or more")
	}
	for _, limit := range r.StopIf {
		if _, err := ParseLimit(limit.String()); err != nil {
			return err
		}
	}
	return nil
}

// endAfter returns the number of messages at which the step ends that begins after some of a total;
// 0: the last step, which ends with the job.
func (r Ramp) endAfter(begun, total int) (end int) {
	ends := []int{r.First}
	for _, percent := range r.Percent {
		ends = append(ends, int(math.Ceil(percent*float64(total)/100)))
	}
	for _, at := range ends {
		if at > begun && at < total && (end == 0 || at < end) {
			end = at
		}
	}
	return end
}

// Limit is a number of failures above which a job pauses. Its text is such as "failed > 2%",
// "failed > 10" or, for failures of the class ordering alone, "failed ordering > 0".
type Limit struct {
	Class   string  // of the failures; "": all, also messages that could not be sent
	Above   float64 // messages, or percent of the messages of the step
	Percent bool
}

// ParseLimit reads the text of a limit.
func ParseLimit(text string) (Limit, error) {
	mistake := fmt.Errorf("the limit %q: expected such as 'failed > 2%%', 'failed > 10' or, for a class of failures, 'failed timeout > 1%%'", text)
	at := strings.LastIndex(text, ">")
	if at < 0 {
		return Limit{}, mistake
	}
	class, isFailed := strings.CutPrefix(strings.TrimSpace(text[:at]), "failed")
	if !isFailed || class != "" && class[0] != ' ' {
		return Limit{}, mistake
	}
	number, isPercent := strings.CutSuffix(strings.TrimSpace(text[at+1:]), "%")
	above, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(above >= 0) || math.IsInf(above, 0) || isPercent && above >= 100 {
		return Limit{}, mistake
	}
	return Limit{strings.TrimSpace(class), above, isPercent}, nil
}

// String returns the text of the limit.
func (l Limit) String() string {
	text := "failed"
	if l.Class != "" {
		text += " " + l.Class
	}
	text += " > " + strconv.FormatFloat(l.Above, 'f', -1, 64)
	if l.Percent {
		text += "%"
	}
	return text
}

// MarshalText implements encoding.TextMarshaler.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Limit) UnmarshalText(text []byte) (err error) {
	*l, err = ParseLimit(string(text))
	return err
}

// isAbove reports whether the failures of a step are above the limit.
func (l Limit) isAbove(failed, messages int) bool {
	if l.Percent {
		return float64(failed)*100 > l.Above*float64(messages)
	}
	return float64(failed) > l.Above
}
