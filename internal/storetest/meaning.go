package storetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/watershipmq/watership/schemas"
)

// statement is a text of the query language and, by itself, a function that says
// which events it is true of. Neither knows of the other: what stores make of
// the text is compared with the function.
type statement struct {
	text string
	is   func(schemas.Event) bool
}

// statement makes one of the corpus's values, not deeper than depth.
func (c corpus) statement(depth int) statement {
	if depth == 0 {
		return c.fact()
	}
	a, b := c.statement(depth-1), c.statement(c.IntN(depth))
	and, or, not := pick(c, "and", "AND", "And"), pick(c, "or", "OR"), pick(c, "not", "NOT")
	switch c.IntN(5) {
	case 0:
		return statement{"(" + a.text + ") " + and + " (" + b.text + ")", func(e schemas.Event) bool { return a.is(e) && b.is(e) }}
	case 1:
		return statement{"(" + a.text + ")  " + or + " (" + b.text + ")", func(e schemas.Event) bool { return a.is(e) || b.is(e) }}
	case 2:
		return statement{not + " (" + a.text + ")", func(e schemas.Event) bool { return !a.is(e) }}
	case 3: // without parentheses: `and` before `or`
		x, y, z := c.fact(), c.fact(), c.fact()
		return statement{x.text + " " + or + " " + y.text + " " + and + " " + not + " " + z.text, func(e schemas.Event) bool { return x.is(e) || y.is(e) && !z.is(e) }}
	}
	field := pick(c, "event.action", "action", "labels.tenant", "headers.tenant")
	x, y, z := c.equals(field), c.equals(field), c.equals(field)
	return statement{
		field + ": (" + x.text + " or " + y.text + " and not " + z.text + ")",
		func(e schemas.Event) bool { return x.is(e) || y.is(e) && !z.is(e) },
	}
}

// fact is a statement about one field.
func (c corpus) fact() statement {
	switch c.IntN(7) {
	case 0:
		return c.lasted()
	case 1:
		return c.happened()
	case 2:
		return c.said()
	case 3:
		field := pick(c, "headers.tenant", "labels.tenant", "error.message", "event.action")
		return statement{field + pick(c, ":*", ": *", " : *"), func(e schemas.Event) bool { return valueOf(e, field) != "" }}
	default:
		field := pick(c, "event.action", "action", "headers.tenant", "labels.tenant")
		v := c.equals(field)
		return statement{field + pick(c, ":", ": ", " :  ") + v.text, v.is}
	}
}

// valueOf is empty where an event has no such field.
func valueOf(e schemas.Event, field string) string {
	switch field {
	case "event.action", "action":
		return string(e.Action)
	case "error.message":
		return e.Failure.Message
	}
	tenant, _ := e.Envelope.Headers["tenant"].(string)
	return tenant
}

// equals is about a value in quotes, without, or by its beginning.
func (c corpus) equals(field string) statement {
	want := pick(c, c.tenant(), "nobody")
	if strings.HasSuffix(field, "action") {
		want = string(c.action())
	}
	equal := func(e schemas.Event) bool { return valueOf(e, field) == want }
	switch c.IntN(3) {
	case 0:
		return statement{`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(want) + `"`, equal}
	case 1:
		return statement{escaped(want), equal}
	}
	prefix := string([]rune(want)[:1])
	return statement{escaped(prefix) + "*", func(e schemas.Event) bool { return strings.HasPrefix(valueOf(e, field), prefix) }}
}

func (c corpus) lasted() statement {
	bound := float64(c.IntN(13)) + pick(c, 0.5, 1)
	op := pick(c, "<", "<=", ">", ">=")
	text := pick(c, "event.duration", "duration") + " " + op + " " + strconv.FormatFloat(bound, 'g', -1, 64)
	return statement{text, func(e schemas.Event) bool { return e.Duration != 0 && compared(op, float64(e.Duration), bound) }}
}

func compared(op string, have, bound float64) bool {
	switch op {
	case "<":
		return have < bound
	case "<=":
		return have <= bound
	case ">":
		return have > bound
	}
	return have >= bound
}

func (c corpus) happened() statement {
	bound := c.time().Truncate(time.Second)
	op := pick(c, "<", ">=") // the others mean the end of that second
	text := pick(c, `"`+bound.Format(time.RFC3339)+`"`, strconv.FormatInt(bound.UnixMilli(), 10), `"`+bound.Add(-24*time.Hour).Format(time.RFC3339)+`||+1d"`)
	return statement{"@timestamp" + op + text, func(e schemas.Event) bool {
		return compared(op, float64(e.Time.UnixMilli()), float64(bound.UnixMilli()))
	}}
}

// said is about any of some words, or all of them in this order.
func (c corpus) said() statement {
	words := []string{c.word(), c.word()}
	phrase := strings.Join(words, " ")
	spoken := func(e schemas.Event) []string {
		return strings.FieldsFunc(e.Failure.Message, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	}
	if c.IntN(2) == 0 {
		return statement{fmt.Sprintf("error.message: %q", strings.ToTitle(phrase[:1])+phrase[1:]), func(e schemas.Event) bool {
			return strings.Contains(" "+strings.Join(spoken(e), " ")+" ", " "+phrase+" ")
		}}
	}
	return statement{"error.message: " + phrase, func(e schemas.Event) bool {
		return slices.ContainsFunc(spoken(e), func(word string) bool { return slices.Contains(words, word) })
	}}
}
