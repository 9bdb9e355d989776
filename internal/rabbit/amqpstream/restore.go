package amqpstream

import "errors"

// restore returns the frame with the headers in EncodedHeaders, and with those that stash
// has moved; nil for a frame that has neither.
func restore(frame []byte) []byte {
	start, end, ok := headersOf(frame)
	if !ok {
		return nil
	}
	table, changed := frame[start:end], false
	if encoded, is := encodedTable(table); is {
		table, changed = encoded, true
	}
	if merged := restoreUnreadable(table); merged != nil {
		table, changed = merged, true
	}
	if !changed {
		return nil
	}
	return replaceHeaders(frame, start, end, table)
}

// restoreUnreadable reverses stash: it returns the table with the original headers, nil for
// a table without UnreadableHeaders. A header set since then takes precedence over the
// original.
func restoreUnreadable(table []byte) []byte {
	for at := 0; at < len(table); {
		value := valueOffset(table, at)
		content, next := contentOffsets(table, value)
		if next < 0 {
			break
		}
		if table[value] == 'x' && string(table[at+1:value]) == UnreadableHeaders {
			return merge(table, table[content:next])
		}
		at = next
	}
	return nil
}

// merge returns table without UnreadableHeaders and UnreadableDeath, and with the stashed headers. It
// drops stashed control headers, since any publisher can send a header named
// UnreadableHeaders.
func merge(table, stashed []byte) []byte {
	merged := make([]byte, 0, len(table)+len(stashed))
	present := map[string]bool{}
	eachEntry(table, func(e entry) {
		if name := string(e.name); name != UnreadableHeaders && name != UnreadableDeath {
			present[string(e.name)] = true
			merged = append(merged, e.encoded...)
		}
	})
	rest := eachEntry(stashed, func(e entry) {
		if !present[string(e.name)] && !isControl(e.name) {
			merged = append(merged, e.encoded...)
		}
	})
	return append(merged, withoutControl(rest)...)
}

// CheckUnreadable refuses a value of UnreadableHeaders that would be encoded as a
// malformed table. An unknown field type passes: only a broker that supports it can
// have sent it.
func CheckUnreadable(value any) error {
	table, ok := value.([]byte)
	if !ok {
		return errors.New("header " + UnreadableHeaders + " is no byte array; the name is reserved for headers that cannot be read")
	}
	headers := container{rest: table, named: true}
	for len(headers.rest) > 0 {
		kind, content, v := headers.next()
		if v == decodable {
			v = checkValue(kind, content, len(table), len(table))
		}
		switch v {
		case unknownType:
			return nil
		case malformed:
			return errors.New("header " + UnreadableHeaders + " holds no table of headers")
		}
	}
	return nil
}
