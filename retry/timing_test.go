package retry

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// at parses a time with its offset, such as 2026-03-29 01:30 +0100.
func at(t testing.TB, s string) time.Time {
	t.Helper()
	parsed, err := time.Parse("2006-01-02 15:04 -0700", s)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// Clocks in Berlin go from 02:00 to 03:00 on 2026-03-29, and from 03:00 back to 02:00 on
// 2026-10-25.
func TestHoursOfTheDay(t *testing.T) {
	berlin := func(hour string) Policy { return Policy{At: []string{hour}, TimeZone: "Europe/Berlin"} }
	for name, test := range map[string]struct {
		policy    Policy
		now, want string
	}{
		"UTC by default":                        {Policy{At: []string{"03:00"}}, "2026-05-08 22:15 +0000", "2026-05-09 03:00 +0000"},
		"later today":                           {berlin("23:30"), "2026-05-08 22:15 +0200", "2026-05-08 23:30 +0200"},
		"tomorrow":                              {berlin("03:00"), "2026-05-08 22:15 +0200", "2026-05-09 03:00 +0200"},
		"now is over":                           {berlin("03:00"), "2026-05-08 03:00 +0200", "2026-05-09 03:00 +0200"},
		"the day is that of the zone":           {berlin("00:30"), "2026-05-08 22:15 +0000", "2026-05-08 22:30 +0000"},
		"west of UTC":                           {Policy{At: []string{"03:00"}, TimeZone: "America/New_York"}, "2026-05-08 02:00 +0000", "2026-05-08 07:00 +0000"},
		"half an hour":                          {Policy{At: []string{"03:00"}, TimeZone: "Asia/Kolkata"}, "2026-05-08 00:00 +0000", "2026-05-08 21:30 +0000"},
		"over the change in spring":             {berlin("05:00"), "2026-03-28 22:00 +0100", "2026-03-29 05:00 +0200"},
		"over the change in autumn":             {berlin("05:00"), "2026-10-24 22:00 +0200", "2026-10-25 05:00 +0100"},
		"an hour that is left out":              {berlin("02:30"), "2026-03-28 22:00 +0100", "2026-03-29 03:30 +0200"},
		"an hour that is left out, a day later": {berlin("02:30"), "2026-03-29 03:30 +0200", "2026-03-30 02:30 +0200"},
		"an hour that is repeated":              {berlin("02:30"), "2026-10-24 22:00 +0200", "2026-10-25 02:30 +0200"},
		"an hour that is repeated counts once":  {berlin("02:30"), "2026-10-25 02:30 +0200", "2026-10-26 02:30 +0100"},
		"a day that a zone leaves out":          {Policy{At: []string{"12:00"}, TimeZone: "Pacific/Apia"}, "2011-12-29 22:30 +0000", "2011-12-30 22:00 +0000"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.policy.Validate(); err != nil {
				t.Fatal(err)
			}
			now := at(t, test.now)
			got := now.Add(test.policy.Next(Failure{Err: errBroken, Attempt: 1, Now: now}, nil).Delay)
			if want := at(t, test.want).Add(hourGrace); !got.Equal(want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// A delay that ends in a window ends after it.
func TestWindows(t *testing.T) {
	in := func(windows ...Window) Policy {
		return Policy{Delays: []time.Duration{time.Hour}, TimeZone: "Europe/Berlin", NoAttempts: windows}
	}
	santiago := func(window Window) Policy { // clocks go from 00:00 to 01:00 on 2026-09-06
		return Policy{Delays: []time.Duration{time.Hour}, TimeZone: "America/Santiago", NoAttempts: []Window{window}}
	}
	night := Window{From: "22:00", To: "06:00"}
	for name, test := range map[string]struct {
		policy    Policy
		now, want string
	}{
		"before it":                 {in(night), "2026-05-08 20:59 +0200", "2026-05-08 21:59 +0200"},
		"at its begin":              {in(night), "2026-05-08 21:00 +0200", "2026-05-09 06:00 +0200"},
		"after midnight":            {in(night), "2026-05-08 01:00 +0200", "2026-05-08 06:00 +0200"},
		"at its end":                {in(night), "2026-05-08 05:00 +0200", "2026-05-08 06:00 +0200"},
		"after it":                  {in(night), "2026-05-08 06:00 +0200", "2026-05-08 07:00 +0200"},
		"another day":               {in(Window{Days: []string{"sat"}, From: "10:00", To: "12:00"}), "2026-05-08 10:00 +0200", "2026-05-08 11:00 +0200"},
		"its day":                   {in(Window{Days: []string{"sat"}, From: "10:00", To: "12:00"}), "2026-05-09 10:00 +0200", "2026-05-09 12:00 +0200"},
		"begins on its day":         {in(Window{Days: []string{"sat"}, From: "22:00", To: "06:00"}), "2026-05-10 01:00 +0200", "2026-05-10 06:00 +0200"},
		"ends on its day":           {in(Window{Days: []string{"sat"}, From: "22:00", To: "06:00"}), "2026-05-09 01:00 +0200", "2026-05-09 02:00 +0200"},
		"whole days":                {in(Window{Days: []string{"sat", "sun"}}), "2026-05-09 12:00 +0200", "2026-05-11 00:00 +0200"},
		"a date":                    {in(Window{Dates: "2026-12-24"}), "2026-12-24 12:00 +0100", "2026-12-25 00:00 +0100"},
		"another date":              {in(Window{Dates: "2026-12-24"}), "2027-12-24 12:00 +0100", "2027-12-24 13:00 +0100"},
		"dates":                     {in(Window{Dates: "2026-12-24..2026-12-31"}), "2026-12-26 12:00 +0100", "2027-01-01 00:00 +0100"},
		"one after the other":       {in(night, Window{From: "06:00", To: "09:00"}), "2026-05-08 23:00 +0200", "2026-05-09 09:00 +0200"},
		"the change in spring":      {in(Window{From: "01:00", To: "02:30"}), "2026-03-29 00:30 +0100", "2026-03-29 03:30 +0200"},
		"the change in autumn":      {in(Window{From: "01:00", To: "02:30"}), "2026-10-25 00:30 +0200", "2026-10-25 02:30 +0100"},
		"an hour within it":         {Policy{At: []string{"23:00"}, NoAttempts: []Window{night}}, "2026-05-08 12:00 +0000", "2026-05-09 06:00 +0000"},
		"a class has those of all":  {Policy{Classes: map[string]Policy{DefaultClass: {Delays: []time.Duration{time.Hour}}}, NoAttempts: []Window{night}}, "2026-05-08 22:00 +0000", "2026-05-09 06:00 +0000"},
		"clocks change at midnight": {santiago(night), "2026-09-06 23:30 -0400", "2026-09-07 06:00 -0300"},
		"an hour after the change":  {santiago(night), "2026-09-06 23:40 -0300", "2026-09-07 06:00 -0300"},
		"the day before the change": {santiago(Window{Days: []string{"sun"}, From: "22:00", To: "06:00"}), "2026-09-06 23:30 -0400", "2026-09-07 06:00 -0300"},
		"ends at a left-out hour":   {santiago(Window{From: "22:00", To: "00:30"}), "2026-09-05 22:30 -0400", "2026-09-06 01:30 -0300"},
		"a repeated day, and no to": {in(Window{From: "22:00", To: "22:00", Days: []string{"fri"}}), "2026-05-08 22:00 +0200", "2026-05-09 22:00 +0200"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.policy.Validate(); err != nil {
				t.Fatal(err)
			}
			now, want := at(t, test.now), at(t, test.want)
			if got := now.Add(test.policy.Next(Failure{Err: errBroken, Attempt: 1, Now: now}, nil).Delay); !got.Equal(want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// The wait for an unavailable service, and the delay that a handler asks for, end in no
// window, too.
func TestWindowsHoldForEveryDelay(t *testing.T) {
	policy := Policy{Delays: []time.Duration{time.Second}, NoAttempts: []Window{{From: "22:00", To: "06:00"}}}
	now := at(t, "2026-05-08 23:00 +0000")
	for _, err := range []error{errBroken, Unavailable(errBroken), After(time.Hour, errBroken)} {
		if got := policy.Next(Failure{Err: err, Attempt: 1, Now: now}, nil).Delay; got != 7*time.Hour {
			t.Errorf("%v: got %s, want 7h", err, got)
		}
	}
}

// Messages that wait for the end of a window do not all return in one second.
func TestSpread(t *testing.T) {
	now := at(t, "2026-05-08 23:00 +0000")
	random := rand.New(rand.NewPCG(1, 1))
	for name, policy := range map[string]Policy{
		"window": {Delays: []time.Duration{time.Hour}, NoAttempts: []Window{{From: "22:00", To: "06:00"}}, Spread: 10 * time.Minute},
		"hour":   {At: []string{"06:00"}, Spread: 10 * time.Minute},
	} {
		minutes := map[int]int{}
		for range 1000 {
			delay := policy.Next(Failure{Err: errBroken, Attempt: 1, Now: now}, random.Float64).Delay
			minutes[int((delay-7*time.Hour)/time.Minute)]++
		}
		for minute := range 10 {
			if minutes[minute] < 50 {
				t.Errorf("%s: %d of 1000 messages return in minute %d: %v", name, minutes[minute], minute, minutes)
			}
		}
	}
}

func TestGiveUpAfter(t *testing.T) {
	policy := Policy{
		First: time.Hour, Factor: 1, Attempts: 100, GiveUpAfter: 3 * time.Hour,
		Classes: map[string]Policy{"short": {First: time.Hour, Factor: 1, Attempts: 100, GiveUpAfter: time.Hour}, "same": {First: time.Hour, Factor: 1, Attempts: 100}},
	}
	const late = "poison: its next attempt would be later than "
	first := at(t, "2026-05-08 12:00 +0000")
	for name, test := range map[string]struct {
		err   error
		since time.Duration
		want  string
	}{
		"the first failure":             {errBroken, 0, "retry 1h0m0s"},
		"at its end":                    {errBroken, 2 * time.Hour, "retry 1h0m0s"},
		"beyond":                        {errBroken, 2*time.Hour + time.Second, late + "3h0m0s"},
		"a class":                       {Class("short", errBroken), time.Second, late + "1h0m0s"},
		"a class without a time":        {Class("same", errBroken), 2*time.Hour + time.Second, late + "3h0m0s"},
		"a service that is unavailable": {Unavailable(errBroken), 3 * time.Hour, late + "3h0m0s"},
	} {
		got := spell(policy.Next(Failure{Err: test.err, Attempt: 1, First: first, Now: first.Add(test.since)}, nil))
		if got = strings.TrimSuffix(got, " after its first failure"); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
	if got := spell(policy.Next(Failure{Err: errBroken, Attempt: 1, Now: first}, nil)); got != "retry 1h0m0s" {
		t.Errorf("without an earlier failure: %s", got)
	}
}

func TestValidateTimes(t *testing.T) {
	hour := []time.Duration{time.Hour}
	for name, test := range map[string]struct {
		policy Policy
		want   string
	}{
		"hour":                    {Policy{At: []string{"03:00", "3:00"}}, "at[1] 3:00: expected an hour such as 03:00"},
		"hour of no day":          {Policy{At: []string{"24:00"}}, "at[0] 24:00"},
		"minute of no hour":       {Policy{At: []string{"03:60"}}, "at[0] 03:60"},
		"time zone":               {Policy{At: []string{"03:00"}, TimeZone: "Europe/Berlino"}, "time_zone Europe/Berlino: expected the name of a time zone"},
		"time zone of a process":  {Policy{At: []string{"03:00"}, TimeZone: "Local"}, "time_zone Local"},
		"negative total":          {Policy{Delays: hour, GiveUpAfter: -1}, "give_up_after -1ns: expected a duration"},
		"negative spread":         {Policy{Delays: hour, Spread: -1}, "spread -1ns"},
		"day":                     {Policy{NoAttempts: []Window{{Days: []string{"monday"}}}}, "no_attempts[0].days monday: expected mon, tue"},
		"date":                    {Policy{NoAttempts: []Window{{Dates: "2026-02-30"}}}, "no_attempts[0].dates 2026-02-30: expected a date"},
		"dates in reverse":        {Policy{NoAttempts: []Window{{Dates: "2026-12-31..2026-12-24"}}}, "no_attempts[0].dates"},
		"many dates":              {Policy{NoAttempts: []Window{{Dates: "2026-01-01..2026-12-31"}}}, "at most 31 days"},
		"half a window":           {Policy{NoAttempts: []Window{{From: "22:00"}}}, "no_attempts[0].to: expected an hour such as 22:00"},
		"empty window":            {Policy{NoAttempts: []Window{{}}}, "no_attempts[0]: expected days, dates, or from and to"},
		"no time left":            {Policy{NoAttempts: []Window{{From: "22:00", To: "06:00"}, {From: "05:00", To: "22:00"}}}, "no_attempts: expected windows that leave time"},
		"no day left":             {Policy{NoAttempts: []Window{{Days: days()}}}, "no_attempts: expected windows that leave time"},
		"no day left for a month": {Policy{NoAttempts: []Window{{Dates: "2026-01-01..2026-01-31"}, {Dates: "2026-02-01..2026-02-28"}}}, "no_attempts: expected windows that leave time"},
		"a window of a class":     {Policy{Classes: map[string]Policy{"a": {NoAttempts: []Window{{Days: []string{"sun"}}}}}}, "classes.a.no_attempts: expected none within a class"},
		"a time zone of a class":  {Policy{Classes: map[string]Policy{"a": {TimeZone: "UTC"}}}, "classes.a.time_zone: expected none within a class"},
		"an hour of a class":      {Policy{Classes: map[string]Policy{"a": {At: []string{"x"}}}}, "classes.a.at[0] x"},
	} {
		if err := test.policy.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// A number of attempts that a message asks for cuts hours, or repeats the last.
func TestAttemptsWithHours(t *testing.T) {
	policy := Policy{Delays: []time.Duration{time.Second, time.Minute}, At: []string{"01:00", "02:00"}}
	for n, want := range map[int]string{
		0: "[] []", 1: "[] []", 2: "[1s] []", 3: "[1s 1m0s] []", 4: "[1s 1m0s] [01:00]", 7: "[1s 1m0s] [01:00 02:00 02:00 02:00]",
	} {
		got := policy.WithAttempts(n)
		if text := fmt.Sprint(got.Delays, " ", got.At); strings.ReplaceAll(text, "  ", " ") != want || got.MaxAttempts() != max(n, 1) {
			t.Errorf("%d attempts: %s, %d; want %s", n, text, got.MaxAttempts(), want)
		}
	}
}

// Whatever a policy that is valid says, its next attempt is in the future and in no window.
func FuzzTimes(f *testing.F) {
	f.Add("03:00", "Europe/Berlin", "sat", "2026-12-24..2026-12-31", "22:00", "06:00", int64(1774746000), int64(60_000))
	f.Add("02:30", "", "", "", "00:00", "00:00", int64(1774746000), int64(60_000))
	f.Add("02:30", "America/New_York", "sun", "", "01:00", "02:30", int64(1793498400), int64(86_400_000))
	f.Fuzz(func(t *testing.T, hour, zone, day, dates, from, to string, now, delay int64) {
		policy := Policy{
			Delays: []time.Duration{time.Duration(delay) * time.Millisecond}, At: []string{hour}, TimeZone: zone,
			NoAttempts: []Window{{Dates: dates, From: from, To: to}, {Days: []string{day}, From: to, To: from}},
		}
		if policy.Validate() != nil || now < 0 || now > 1<<33 {
			return
		}
		since := time.Unix(now, 0)
		for attempt := 1; attempt < policy.MaxAttempts(); attempt++ {
			d := policy.Next(Failure{Err: errBroken, Attempt: attempt, Now: since}, nil)
			location, _ := policy.zone()
			if due := since.Add(d.Delay); d.Delay <= 0 || d.Delay%time.Millisecond != 0 || !policy.endOfWindows(due, location).Equal(due) {
				t.Errorf("%+v: attempt %d at %s is in a window, or early", policy, attempt, due)
			}
		}
	})
}
