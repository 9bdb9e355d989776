package wire

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/internal/wire/publishtime"
	"github.com/watershipmq/watership/schemas"
)

// Only one unit of a number gives a plausible time.
func TestTimestampsInOtherUnits(t *testing.T) {
	received := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	sent := time.Date(2026, 5, 4, 3, 2, 0, 123456789, time.UTC)
	for name, test := range map[string]struct {
		stamp  int64 // seconds by the definition of AMQP
		want   time.Time
		source schemas.TimeSource
	}{
		"seconds":                        {sent.Unix(), sent.Truncate(time.Second), timeOfPublisher},
		"milliseconds":                   {sent.UnixMilli(), sent.Truncate(time.Millisecond), timeOfPublisher},
		"microseconds":                   {sent.UnixMicro(), sent.Truncate(time.Microsecond), timeOfPublisher},
		"nanoseconds":                    {sent.UnixNano(), sent, timeOfPublisher},
		"milliseconds of a year ago":     {sent.AddDate(-1, 0, 0).UnixMilli(), received, TimeOfIngest},
		"milliseconds of the future":     {sent.Add(time.Hour).UnixMilli(), received, TimeOfIngest},
		"milliseconds of six days ago":   {sent.Add(-6 * 24 * time.Hour).UnixMilli(), sent.Add(-6 * 24 * time.Hour).Truncate(time.Millisecond), timeOfPublisher},
		"milliseconds of a week ago":     {received.Add(-7 * 24 * time.Hour).UnixMilli(), received, TimeOfIngest},
		"centiseconds":                   {sent.UnixMilli() / 10, received, TimeOfIngest},
		"negative":                       {-sent.UnixMilli(), received, TimeOfIngest},
		"largest number of milliseconds": {math.MaxInt64, received, TimeOfIngest},
	} {
		t.Run(name, func(t *testing.T) {
			checkTime(t, Decoder{}.Tapped(amqp.Delivery{Exchange: "shop", Timestamp: time.Unix(test.stamp, 0)}, received, 1), test.want, test.source)
		})
	}
}

func TestTimesInHeaders(t *testing.T) {
	received := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	sent := time.Date(2026, 5, 4, 3, 2, 0, 123456289, time.UTC)
	second, milli, micro := sent.Truncate(time.Second), sent.Truncate(time.Millisecond), sent.Truncate(time.Microsecond)
	for _, test := range []struct {
		value any
		want  time.Time // zero: none
	}{
		{sent.Unix(), second},
		{int32(sent.Unix()), second},
		{uint32(sent.Unix()), second},
		{second, second},
		{time.Unix(sent.UnixMilli(), 0), milli},
		{sent.UnixMilli(), milli},
		{sent.UnixMicro(), micro},
		{sent.UnixNano(), sent},
		{float64(sent.Unix()) + 0.5, second.Add(500 * time.Millisecond)},
		{float64(sent.UnixNano()) / 1e9, micro},
		{float64(sent.UnixMilli()), milli},
		{fmt.Sprint(sent.Unix()), second},
		{fmt.Sprint(sent.UnixMilli()), milli},
		{fmt.Sprint(sent.Unix()) + ".5", second.Add(500 * time.Millisecond)},
		{[]byte(fmt.Sprint(sent.UnixMicro())), micro},
		{"2026-05-04T03:02:00Z", second},
		{"2026-05-04T03:02:00.123456289Z", sent},
		{"2026-05-04T05:02:00.123+02:00", milli},
		{"2026-05-04T05:02:00.123+0200", milli},
		{"2026-05-04T03:02:00.123456", micro},
		{"2026-05-04 03:02:00.123456", micro},
		{"2026-05-04 03:02:00Z", second},
		{"2026-05-04 05:02:00.123456+02:00", micro},
		{"2026-05-03 23:02:00-0400", second},
		{[]byte("2026-05-04T03:02:00Z"), second},
		{"Mon, 04 May 2026 03:02:00 GMT", second},
		{"Mon, 4 May 2026 03:02:00 UTC", second},
		{"Mon, 04 May 2026 05:02:00 +0200", second},

		{nil, time.Time{}},
		{"", time.Time{}},
		{true, time.Time{}},
		{int8(-1), time.Time{}},
		{int64(math.MaxInt64), time.Time{}},
		{int64(math.MinInt64), time.Time{}},
		{math.NaN(), time.Time{}},
		{math.Inf(1), time.Time{}},
		{-float64(sent.Unix()), time.Time{}},
		{math.MaxFloat64, time.Time{}},
		{"NaN", time.Time{}},
		{"Inf", time.Time{}},
		{"yesterday", time.Time{}},
		{"2026-05-04", time.Time{}},
		{"2025-05-04T03:02:00Z", time.Time{}}, // a year ago
		{"2026-05-04T03:08:00Z", time.Time{}}, // the future
		{"Mon, 04 May 2026 03:02:00 CEST", time.Time{}},
		{strings.Repeat("1", 1<<20), time.Time{}},
		{time.Unix(math.MinInt64, 0), time.Time{}},
		{time.Time{}, time.Time{}},
		{amqp.Table{"time": sent.Unix()}, time.Time{}},
		{[]any{sent.Unix()}, time.Time{}},
		{amqp.Decimal{Value: 1}, time.Time{}},
	} {
		name := fmt.Sprintf("%T %.40v", test.value, test.value)
		t.Run(name, func(t *testing.T) {
			d := amqp.Delivery{Exchange: "shop", Headers: amqp.Table{"sent_at": test.value}}
			want, source := test.want, timeOfPublisher
			if want.IsZero() {
				want, source = received, TimeOfIngest
			}
			checkTime(t, Decoder{TimeHeaders: []string{"sent_at"}}.Tapped(d, received, 1), want, source)
			checkTime(t, Decoder{TimeHeaders: []string{"other"}}.Tapped(d, received, 1), received, TimeOfIngest)
			checkTime(t, Decoder{}.Tapped(d, received, 1), received, TimeOfIngest)
		})
	}
}

// The broker's time takes precedence over the property, the property over the headers,
// and a header over those after it.
func TestPrecedenceOfTimes(t *testing.T) {
	received := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	ago := func(minutes time.Duration) time.Time { return received.Add(-minutes * time.Minute) }
	dec := Decoder{TimeHeaders: []string{"sent_at", "x-time"}}
	d := amqp.Delivery{Exchange: "shop", Timestamp: ago(2), Headers: amqp.Table{
		header.BrokerTime: ago(1).UnixMilli(), "sent_at": ago(3).Format(time.RFC3339), "x-time": ago(4).Unix(),
	}}
	checkTime(t, dec.Tapped(d, received, 1), ago(1), TimeOfBroker)
	delete(d.Headers, header.BrokerTime)
	checkTime(t, dec.Tapped(d, received, 1), ago(2), timeOfPublisher)
	d.Timestamp = received.AddDate(1, 0, 0)
	checkTime(t, dec.Tapped(d, received, 1), ago(3), timeOfPublisher)
	d.Headers["sent_at"] = "unknown"
	checkTime(t, dec.Tapped(d, received, 1), ago(4), timeOfPublisher)
	delete(d.Headers, "x-time")
	checkTime(t, dec.Tapped(d, received, 1), received, TimeOfIngest)
}

func checkTime(t *testing.T, event schemas.Event, want time.Time, source schemas.TimeSource) {
	t.Helper()
	if !event.Time.Equal(want) || event.TimeSource != source {
		t.Errorf("got %v by %s, want %v by %s", event.Time, event.TimeSource, want, source)
	}
}

// FuzzTimeHeaders: a tapped message has a plausible time, whatever its publisher set.
func FuzzTimeHeaders(f *testing.F) {
	received := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for _, text := range []string{
		"", "1777863720", "1777863720123", "1777863720.5", "2026-05-04T03:02:00.123Z", "2026-05-04 03:02:00+0000",
		"Mon, 04 May 2026 05:02:00 +0200", "0x1p30", "1e400", "NaN", "9999-12-31T23:59:60Z",
	} {
		f.Add(text, received.UnixMilli(), float64(received.Unix()))
	}
	f.Fuzz(func(t *testing.T, text string, n int64, number float64) {
		for _, value := range []any{text, []byte(text), n, int32(n), number, time.Unix(n, 0)} {
			d := amqp.Delivery{Exchange: "shop", Headers: amqp.Table{"sent_at": value}, Timestamp: time.Unix(n, int64(number))}
			for _, dec := range []Decoder{{}, {TimeHeaders: []string{"sent_at"}}} {
				event := dec.Tapped(d, received, 1)
				if event.TimeSource == TimeOfIngest && event.Time.Equal(received) {
					continue
				}
				if event.TimeSource != timeOfPublisher || !publishtime.IsPlausible(event.Time, received) {
					t.Errorf("%T %v gave %v by %s", value, value, event.Time, event.TimeSource)
				}
			}
		}
	})
}
