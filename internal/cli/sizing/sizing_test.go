package sizing

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

// The tables of docs/sizing.md, for messages that are handled, are those that the command calculates.
func TestDocumentedTables(t *testing.T) {
	page, err := os.ReadFile("../../../docs/sizing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []float64{1 << 10, 10 << 10} {
		if want := table(size, 1); !strings.Contains(string(page), want) {
			t.Errorf("docs/sizing.md lacks the table for bodies of %.0f KiB:\n%s", size/1024, want)
		}
	}
}

func table(size, handled float64) string {
	text := "| messages/s | " + strings.ToLower(strings.Join(Columns(), " | ")) + " |\n|" + strings.Repeat(" ---: |", len(Columns())+1) + "\n"
	for _, rate := range []float64{100, 1000, 10_000, 100_000} {
		plan := New(Traffic{Peak: rate, Daily: rate * 86_400, Size: size, Handled: handled}, Settings{Retention: 30 * day, Replicas: 1})
		text += fmt.Sprintf("| %s | %s |\n", Amount(rate), strings.Join(plan.Texts(), " | "))
	}
	return text
}

// More of anything never needs less of anything.
func TestPlansGrow(t *testing.T) {
	settings := Settings{Retention: 30 * day, Replicas: 1}
	former := New(Traffic{Peak: 1, Daily: 1, Size: 1}, settings)
	for _, t2 := range []Traffic{
		{Peak: 10, Daily: 1, Size: 1},
		{Peak: 10, Daily: 1e6, Size: 1},
		{Peak: 10, Daily: 1e6, Size: 1 << 20},
		{Peak: 10, Daily: 1e6, Size: 1 << 20, Handled: 1},
		{Peak: 1e6, Daily: 1e11, Size: 1 << 20, Handled: 3},
	} {
		plan := New(t2, settings)
		if plan.Serve < former.Serve || plan.Broker < former.Broker || plan.Store < former.Store || plan.Disk < former.Disk ||
			plan.Indices < former.Indices || plan.Shards < former.Shards || plan.Installations < former.Installations {
			t.Errorf("%+v needs %+v, less than before: %+v", t2, plan, former)
		}
		former = plan
	}
}

func TestRetentions(t *testing.T) {
	one := Traffic{Peak: 100, Daily: 1e6, Size: 1024}
	for retention, want := range map[time.Duration]struct {
		days    float64
		indices int // at least
	}{
		12 * time.Hour: {0.5, 12}, 7 * day: {7, 7}, 30 * day: {30, 5}, 365 * day: {365, 13}, 0: {365, 13},
	} {
		plan := New(one, Settings{Retention: retention})
		if math.Abs(plan.Disk-want.days*plan.DiskADay) > 1 || plan.Indices < want.indices || plan.Shards != plan.Indices {
			t.Errorf("a retention of %s: %+v", retention, plan)
		}
	}
}

func TestTexts(t *testing.T) {
	for n, want := range map[float64]string{0: "0 B", 1.25: "1.2 B", 999: "999 B", 1000: "1 kB", 2500: "2.5 kB", 12_345: "12 kB", 4.2e9: "4.2 GB", 3e18: "3000 PB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%v) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[float64]string{0.01: "0.1", 0.2: "0.2", 9.99: "10.0", 10.2: "11"} {
		if got := cores(n); got != want {
			t.Errorf("cores(%v) = %s, want %s", n, got, want)
		}
	}
}
