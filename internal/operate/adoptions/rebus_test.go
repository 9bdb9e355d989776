package adoptions

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestErrorsOfRebus(t *testing.T) {
	for name, test := range map[string]struct {
		details, errorType, text string
		attempts                 int
	}{
		"without its attempts":  {"System.Exception: no stock\n   at A.B()", "System.Exception", "no stock", 1},
		"by the handler itself": {"no stock: Rebus.Exceptions.RebusApplicationException: no stock\n   at A.B()", "", "no stock: Rebus.Exceptions.RebusApplicationException: no stock", 1},
		"without a message":     {"2 unhandled exceptions: 11/24/2026 10:00:00 +00:00: A.B\n\n11/24/2026 10:00:00 +00:00: A.C`1+D", "A.C`1+D", "A.C`1+D", 2},
		"nothing":               {"", "", "no message", 1},
	} {
		f := readAs(t, "rebus", "error", amqp.Table{rebusQueue: "orders", rebusError: test.details})
		if f.ErrorType != test.errorType || f.Error != test.text || f.Attempts != test.attempts || f.Queue != "orders" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// The day and the month of a time are in the order of the machine's language.
func TestTimesOfRebusFollowThePublish(t *testing.T) {
	march, april := time.Date(2026, 3, 4, 9, 0, 0, 0, time.UTC), time.Date(2026, 4, 3, 9, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"03/04/2026 09:00:00 +00:00": march, "04/03/2026 09:00:00 +00:00": march, "3/4/2026 9:00:00 AM +00:00": march,
		"04.03.2026 10:00:00 +01:00": march, "2026-03-04 09:00:00 +00:00": march, "2026. 03. 04. 9:00:00 +00:00": {},
	} {
		if got := localTime(text, march.Add(-time.Minute)); !got.Equal(want) {
			t.Errorf("%s after a publish in March: %s, want %s", text, got, want)
		}
	}
	if got := localTime("04/03/2026 09:00:00 +00:00", april.Add(-time.Minute)); !got.Equal(april) {
		t.Errorf("after a publish in April: %s", got)
	}
	if got := localTime("04/03/2026 09:00:00 +00:00", time.Time{}); !got.IsZero() {
		t.Errorf("without the time of the publish: %s", got)
	}
}
