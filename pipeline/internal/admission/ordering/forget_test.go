package ordering

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Messages of a key that were given up, or that another process has handled, are forgotten once
// nothing waits for them.
func TestMessagesThatDoNotReturnAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(nil)
		for n := range 5000 {
			m := l.arrive("a", fmt.Sprint(n), 0)
			if n%2 == 0 {
				m.Waits(time.Second)
			} else {
				m.GivenUp()
			}
			m.Leave()
			time.Sleep(time.Second)
		}
		within := int((l.cfg.Within + returnGrace) / time.Second)
		if got := len(l.keys["a"].messages); got > 2*within {
			t.Errorf("%d messages are known, though none counts that is older than %d", got, within)
		}
	})
}
