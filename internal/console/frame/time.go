package frame

import (
	"fmt"
	"time"

	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
)

// FutureTime reads a time of a form, as the fields of a period have it: of the page's zone, or
// relative to now.
func FutureTime(text string, zone *time.Location, now time.Time) (time.Time, *problem.Problem) {
	_, at, err := system.Period{To: text, Zone: zone}.Bounds()
	if err != nil {
		return at, Unprocessable(fmt.Sprintf("%q is no time", text), fmt.Sprintf("Give one such as 2026-05-04 06:00, in %s, or now+2h.", zone))
	}
	if !at.After(now) {
		return at, Unprocessable(text+" has passed", fmt.Sprintf("Give a time in the future, in %s: it is %s now.", zone, now.In(zone).Format("2006-01-02 15:04")))
	}
	return at, nil
}
