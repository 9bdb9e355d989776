package errorgroup

import "strings"

// join makes one value of what belongs together: dates with names, numbers with units, addresses
// with ports, and lists.
func join(tokens []token) []token {
	return joinRuns(joinUnits(joinDates(tokens)))
}

// joinDates replaces the names of months and days that have a number near, and zones after it.
func joinDates(tokens []token) []token {
	near := func(i, step int) bool { // a value, after at most a few separators
		for n := 0; n < 3; n++ {
			if i += step; i < 0 || i >= len(tokens) {
				return false
			}
			switch t := tokens[i]; {
			case t.kind == value && t.text == folded:
				return true
			case t.kind == space, t.kind == punct && strings.Contains(",/-.:", t.text):
			default:
				return false
			}
		}
		return false
	}
	for i, t := range tokens {
		if t.kind != word || len(t.text) > 9 || len(t.text) < 2 {
			continue
		}
		follows := near(i, -1)
		if !follows && !near(i, 1) {
			continue
		}
		if lower := strings.ToLower(t.text); months[lower] || zones[lower] && follows {
			tokens[i] = token{value, folded}
		}
	}
	for i, t := range tokens {
		if t.kind == word && len(t.text) <= 9 && near(i, 1) && weekdays[strings.ToLower(t.text)] {
			tokens[i] = token{value, folded}
		}
	}
	return tokens
}

// joinUnits drops the unit after a number, and makes the plural of another word the singular.
func joinUnits(tokens []token) []token {
	out := tokens[:0]
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		out = append(out, t)
		if t.kind != value || t.text != folded {
			continue
		}
		at := i + 1
		if at < len(tokens) && tokens[at].kind == space {
			at++
		}
		if at >= len(tokens) || tokens[at].kind != word {
			continue
		}
		next := tokens[at].text
		switch {
		case units[strings.ToLower(next)]:
			i = at
		case len(next) > 3 && strings.HasSuffix(next, "s") && !strings.HasSuffix(next, "ss") && !strings.HasSuffix(next, "us") && !strings.HasSuffix(next, "is"):
			tokens[at].text = next[:len(next)-1]
		}
	}
	return out
}

// joinRuns makes one value of values with only separators between them.
func joinRuns(tokens []token) []token {
	out := tokens[:0]
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		if t.kind != value {
			out = append(out, t)
			continue
		}
		for next := i; next < len(tokens) && tokens[next].kind == value && tokens[next].text == t.text; next += 1 + separators(tokens[next+1:]) {
			i = next
		}
		out = append(out, t)
	}
	return out
}

// separators returns the number of tokens that only separate values of a list.
func separators(tokens []token) int {
	n := 0
	for n < len(tokens) && n < 4 {
		t := tokens[n]
		switch {
		case t.kind == space:
		case t.kind == punct && strings.Contains(",;:/.-+|*~_&", t.text):
		case t.kind == word && (t.text == "and" || t.text == "or" || t.text == "x" || t.text == "to" || t.text == "of") && n > 0:
		default:
			return n
		}
		n++
	}
	return n
}
