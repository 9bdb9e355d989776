package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
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
