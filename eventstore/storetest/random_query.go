package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// query returns a random query on values of the corpus, at most depth deep.
func (c corpus) query(depth int) string {
	if depth == 0 {
		return c.condition()
	}
	a, b := c.query(depth-1), c.query(c.IntN(depth))
	switch c.IntN(5) {
	case 0:
		return "(" + a + ") and (" + b + ")"
	case 1:
		return "(" + a + ") or (" + b + ")"
	case 2:
		return "not (" + a + ")"
	case 3:
		return c.condition() + " or " + c.condition() + " and not " + c.condition()
	}
	return c.keyword() + ": (" + c.value(c.tenant()) + " or " + c.value(c.queue()+"x") + " and not " + c.value(string(c.action())) + ")"
}

// condition is on one field, on several by a pattern, or on all of them.
func (c corpus) condition() string {
	switch c.IntN(12) {
	case 0:
		return c.number() + " " + pick(c, "<", "<=", ">", ">=", ":") + " " + pick(c, "7", "9.5", "-1", "1e3", "0", "10.0", `"2"`)
	case 1:
		return pick(c, "@timestamp", "watership.first_failed", "watership.attempts.time") + " " + pick(c, "<", "<=", ">", ">=", ":") + " " + c.date()
	case 2, 3:
		return pick(c, "error.message", "error.stack_trace", "body.text") + ": " + c.text()
	case 4:
		return pick(c, c.number(), c.keyword(), c.key(), "error.message", "body.text", "headers", "body.json", "headers.*", "labels.*", "watership.*") + ": *"
	case 5:
		return c.text()
	case 6:
		return pick(c, "headers", "headers.*", "body.json", "body.*") + ": " + c.value(pick(c, c.tenant(), c.word(), "7", "1e3", "true"))
	case 7:
		return pick(c, "event.*", "messaging.*", "watership.*", "*", "*.class") + ": " + c.value(pick(c, c.tenant(), string(c.action()), "7"))
	case 8, 9:
		return c.key() + ": " + c.prefix(pick(c, c.tenant(), c.word(), "7", "2.50", "1000", "true"))
	case 10:
		return pick(c, "watership.queue", "event.action", "labels.tenant") + " " + pick(c, "<", "<=", ">", ">=") + " " + escaped(pick(c, c.tenant(), "orders", "mail", "poisoned"))
	}
	field := c.keyword()
	return field + ": " + c.value(pick(c, c.tenant(), string(c.action()), "orders", "orders.eu", "shop", "order.created", "Timeout", fmt.Sprint("m-", c.IntN(20))))
}

func (c corpus) keyword() string {
	return pick(c, "event.action", "action", "labels.tenant", "watership.queue", "messaging.message.id", "messaging.app_id",
		"error.type", "watership.class", "watership.attempts.class", "stream.id", "watership.stream.id", "messaging.destination.name", "routing_key")
}

// key is the name of a field below a flattened one.
func (c corpus) key() string {
	return pick(c, "headers.tenant", "headers.total", "headers.deep.er", "headers.deep.a.b", "headers.list", "headers.nobody",
		"body.json.order", "body.json.price", "body.json.note", "body.json.lines.sku", "body.json.none", "body.json.violin")
}

func (c corpus) number() string {
	return pick(c, "event.duration", "watership.attempt", "messaging.message.body.size", "numeric_labels.total", "event.sequence", "stream.version")
}

func (c corpus) date() string {
	at := c.time()
	return pick(c,
		`"`+at.Format("2006-01-02T15:04:05.999Z")+`"`, `"`+at.Format("2006-01-02T15:04")+`"`, `"`+at.In(time.FixedZone("", 7200)).Format(time.RFC3339)+`"`,
		at.Format("2006-01-02"), at.Format("2006-01"), "2026", fmt.Sprint(at.UnixMilli()),
		at.Format("2006-01-02")+"||-1M/M", at.Format("2006-01-02")+"||+3d-2H/w", at.Format("2006-01-02")+"||/d", "now-50y/y", "now+1w",
	)
}

// text returns words, a phrase, a prefix or a pattern.
func (c corpus) text() string {
	one, other := c.word(), c.word()
	letters := []rune(one)
	first, last := escaped(string(letters[:1])), escaped(string(letters[len(letters)-1:]))
	if c.IntN(6) == 0 {
		return `"` + strings.ToUpper(one) + " " + other + `"`
	}
	one, other = escaped(one), escaped(other)
	switch c.IntN(5) {
	case 0:
		return one + " " + other
	case 1:
		return first + "*"
	case 2:
		return other + " " + first + "*"
	case 3:
		return "*" + last
	}
	return first + "*" + last
}

// value returns a text in quotes, without quotes, or with wildcards.
func (c corpus) value(text string) string {
	letters := []rune(text)
	if c.IntN(3) > 0 || len(letters) < 2 {
		return c.prefix(text)
	}
	at := 1 + c.IntN(len(letters)-1)
	return pick(c, "*"+escaped(string(letters[at:])), escaped(string(letters[:1]))+"*"+escaped(string(letters[at:])))
}

func (c corpus) prefix(text string) string {
	switch c.IntN(3) {
	case 0:
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
	case 1:
		return escaped(string([]rune(text)[:1])) + "*"
	}
	return escaped(text)
}

// escaped escapes a text without quotes.
func escaped(text string) string {
	text = strings.NewReplacer(`\`, `\\`, `(`, `\(`, `)`, `\)`, `:`, `\:`, `<`, `\<`, `>`, `\>`, `"`, `\"`, `*`, `\*`, `{`, `\{`, `}`, `\}`).Replace(text)
	if slices.Contains([]string{"and", "or", "not"}, text) {
		return `\` + text
	}
	return text
}
