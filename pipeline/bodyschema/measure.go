package bodyschema

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// Bounds of a body. The validator keeps an error for each fault, compares items that must be
// unique with one another, and computes a number with all its digits.
const (
	maxValues   = 100_000
	maxLevels   = 500
	maxDigits   = 1_000
	maxExponent = 1_000

	// largeBody is the number of values of a body that is checked while no other large one is.
	largeBody = 10_000

	// A step compares a value with a part of the schema. A failed one takes memory, with the
	// path to the value. A check that takes more steps than smallCheck begins again, while
	// no other large one runs.
	smallCheck = 20_000
	largeCheck = 1_000_000
)

// steps returns the number of steps that a body may take, of those that a flat one may.
func steps(flat, levels int) int { return flat * 10 / (10 + levels) }

// measure returns about how many values and levels a body has, or the bound that it exceeds. It
// does not check the syntax: the decoder does.
func measure(body []byte) (values, levels int, err error) {
	values = 1
	for at, level := 0, 0; at < len(body); {
		switch c := body[at]; {
		case c == '"':
			at = endOfString(body, at)
			continue
		case c == '-' || c >= '0' && c <= '9':
			end := endOfNumber(body, at)
			if tooLong(body[at:end]) {
				return values, levels, fmt.Errorf("the body has a number of more than %d digits, which is not checked", maxDigits)
			}
			at = end
			continue
		case c == '{' || c == '[':
			level++
			values++
			levels = max(levels, level)
		case c == '}' || c == ']':
			level--
		case c == ',':
			values++
		}
		if at++; level > maxLevels {
			return values, levels, fmt.Errorf("the body has more than %d levels, and is not checked", maxLevels)
		}
		if values > maxValues {
			return values, levels, fmt.Errorf("the body has more than %d values, and is not checked", maxValues)
		}
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return 0, 0, errors.New("the body is not JSON: it is empty")
	}
	return values, levels, nil
}

// endOfString returns the index after a string that begins at start.
func endOfString(body []byte, start int) int {
	for at := start + 1; at < len(body); at++ {
		switch body[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return len(body)
}

func endOfNumber(body []byte, start int) int {
	end := start
	for end < len(body) && bytes.IndexByte([]byte("+-.0123456789eE"), body[end]) >= 0 {
		end++
	}
	return end
}

// tooLong reports whether a number has more digits than are fast to compute with.
func tooLong(number []byte) bool {
	mantissa, exponent, found := bytes.Cut(bytes.ToLower(number[:min(len(number), maxDigits+10)]), []byte("e"))
	if len(number) > maxDigits || len(mantissa) > maxDigits {
		return true
	}
	n, err := strconv.Atoi(string(exponent))
	return found && (err != nil || n > maxExponent || n < -maxExponent)
}
