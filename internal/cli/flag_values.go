package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/render/quantity"
)

// pace is the value of --pace: a factor such as 2x.
type pace float64

// Set implements pflag.Value.
func (p *pace) Set(text string) error {
	factor, err := strconv.ParseFloat(strings.TrimSuffix(text, "x"), 64)
	if err != nil || !(factor > 0) || math.IsInf(factor, 0) {
		return fmt.Errorf("expected a factor above 0, such as 2x or 0.5x")
	}
	*p = pace(factor)
	return nil
}

// String implements pflag.Value.
func (p *pace) String() string {
	if *p == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*p), 'g', -1, 64) + "x"
}

// Type implements pflag.Value.
func (p *pace) Type() string { return "factor" }

// choice is the value of a flag that is one of some words.
type choice struct {
	to    *string
	known []string
}

func newChoice(to *string, known ...string) *choice { return &choice{to, known} }

// Set implements pflag.Value.
func (c *choice) Set(text string) error {
	if !slices.Contains(c.known, text) {
		return fmt.Errorf("expected %s", alternatives(c.known))
	}
	*c.to = text
	return nil
}

// String implements pflag.Value.
func (c *choice) String() string {
	if c.to == nil {
		return ""
	}
	return *c.to
}

// Type implements pflag.Value.
func (c *choice) Type() string { return "word" }

// duration is the value of a flag that is a duration as settings have them, such as 90m or 7d.
type duration struct{ to *time.Duration }

func addDuration(flags *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	flags.Var(duration{to}, name, usage)
}

// Set implements pflag.Value.
func (d duration) Set(text string) error {
	parsed, err := quantity.ParseDuration(text)
	if err != nil || parsed < 0 {
		return errors.New("expected a duration such as 15m, 1h30m or 7d")
	}
	*d.to = parsed
	return nil
}

// String implements pflag.Value.
func (d duration) String() string {
	if d.to == nil || *d.to == 0 {
		return "0" // pflag's help leaves out this default
	}
	return quantity.FormatDuration(*d.to)
}

// Type implements pflag.Value.
func (d duration) Type() string { return "duration" }

// instant is the value of a flag that is a time, or date math such as now+2h.
type instant struct{ to *time.Time }

// Set implements pflag.Value.
func (i instant) Set(text string) error {
	at, err := kql.Instant(kql.DateTime(text), time.Now(), kql.First)
	if err != nil {
		return errors.New("expected a time such as 2026-05-04T06:00:00Z, '2026-05-04 08:00' or now+2h")
	}
	*i.to = at
	return nil
}

// String implements pflag.Value.
func (i instant) String() string {
	if i.to == nil || i.to.IsZero() {
		return ""
	}
	return i.to.Format(time.RFC3339)
}

// Type implements pflag.Value.
func (i instant) Type() string { return "time" }

// number is the value of --expect.
type number struct{ to **int }

// Set implements pflag.Value.
func (n number) Set(text string) error {
	value, err := strconv.Atoi(text)
	if err != nil || value < 0 {
		return errors.New("expected a number, 0 or more")
	}
	*n.to = &value
	return nil
}

// String implements pflag.Value.
func (n number) String() string {
	if n.to == nil || *n.to == nil {
		return ""
	}
	return strconv.Itoa(**n.to)
}

// Type implements pflag.Value.
func (n number) Type() string { return "int" }
